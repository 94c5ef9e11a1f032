package door

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
)

// Request is a row of the log of requests; streamtest.Request says more.
type Request struct {
	At                              time.Time
	Verb                            string
	Resource, Path, Namespace, Name string
	metav1.ListOptions
	Metadata, Protobuf bool
	Code               int
}

// Initial reports whether sendInitialEvents is true.
func (r *Request) Initial() bool { return r.SendInitialEvents != nil && *r.SendInitialEvents }

// Seconds returns timeoutSeconds, or 0.
func (r *Request) Seconds() int64 {
	if r.TimeoutSeconds == nil {
		return 0
	}
	return *r.TimeoutSeconds
}

// validate refuses the lists and watches that a kube-apiserver refuses.
func (r *Request) validate() error {
	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	match, list, why := r.ResourceVersionMatch, r.Verb == "list", ""
	switch {
	case list && r.SendInitialEvents != nil:
		why = "sendInitialEvents is forbidden for list"
	case r.SendInitialEvents != nil && match != notOlder:
		why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
	case match == "" || r.SendInitialEvents != nil:
	case !list:
		why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
	case r.ResourceVersion == "":
		why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
	case r.Continue != "":
		why = "resourceVersionMatch is forbidden when continue is provided"
	case match != exact && match != notOlder:
		why = "supported values of resourceVersionMatch: Exact, NotOlderThan"
	case match == exact && r.ResourceVersion == "0":
		why = `resourceVersionMatch "exact" is forbidden for resourceVersion "0"`
	}
	switch {
	case why != "":
		return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, why)
	case r.Continue != "" && r.ResourceVersion != "" && r.ResourceVersion != "0":
		return apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	case r.ResourceVersion != "" && store.ParseVersion(r.ResourceVersion) < 0:
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %q is not a number", r.ResourceVersion))
	}
	return nil
}

// exact reports whether a list asks for the state at one version. That is the default with a limit (apiserver
// storage/etcd3/store.go, "legacy exact").
func (r *Request) exact() bool {
	return r.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		r.ResourceVersionMatch == "" && r.Limit > 0 && store.ParseVersion(r.ResourceVersion) > 0
}

func (r *Request) view(of gvr.Resource) (store.View, error) {
	if err := r.validate(); err != nil {
		return store.View{}, err
	}
	selected := store.Selection{Labels: r.LabelSelector, Fields: r.FieldSelector}
	if r.Namespace != "" {
		selected.Namespaces = []string{r.Namespace}
	}
	v, err := store.NewView(of, selected)
	if err != nil {
		return v, apierrors.NewBadRequest(err.Error())
	}
	v.Metadata = r.Metadata
	return v, nil
}

// query is a parsed request, and how it is answered.
type query struct {
	request  Request
	name     schema.GroupVersionResource // as requested
	resource gvr.Resource                // as served; zero if it is not
	bad      error                       // why the request is invalid
	lag      int                         // how many changes old the state in the answer is
}

func readQuery(r *http.Request) *query {
	q := &query{request: Request{Path: r.URL.Path}}
	to := &q.request
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/version", parts[0] == "api" && len(parts) <= 2, parts[0] == "apis" && len(parts) <= 3:
		to.Verb = "discovery"
		return q
	case parts[0] == "api":
		q.name.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis":
		q.name.Group, q.name.Version, parts = parts[1], parts[2], parts[3:]
	default:
		q.bad = store.Unknown()
		return q
	}
	// /namespaces/NAME is an object of the resource namespaces.
	if parts[0] == "namespaces" && len(parts) > 2 &&
		!(len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")) {
		to.Namespace, parts = parts[1], parts[2:]
	}
	q.name.Resource = parts[0]
	if len(parts) > 1 {
		to.Name = parts[1]
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q.bad = apierrors.NewBadRequest(err.Error())
	}
	q.readOptions(values)
	to.Verb = verbOf(r.Method, to.Name != "", values)
	if to.Verb == "watch" && to.Name != "" {
		if to.FieldSelector == "" {
			to.FieldSelector = "metadata.name=" + to.Name
		}
		to.Name = ""
	}
	if len(parts) > 2 { // subresources: none
		q.bad = store.Unknown()
	}
	return q
}

func verbOf(method string, named bool, values url.Values) string {
	watch := values.Get("watch")
	switch {
	case method == http.MethodGet && watch != "" && watch != "0" && watch != "false":
		return "watch"
	case method == http.MethodGet && named:
		return "get"
	case method == http.MethodGet:
		return "list"
	case method == http.MethodPost:
		return "create"
	case method == http.MethodPut:
		return "update"
	case method == http.MethodDelete && named:
		return "delete"
	}
	return strings.ToLower(method)
}

func (q *query) readOptions(values url.Values) {
	number := func(name string) int64 {
		n, err := strconv.ParseInt(cmp.Or(values.Get(name), "0"), 10, 64)
		if err != nil && q.bad == nil {
			q.bad = apierrors.NewBadRequest(fmt.Sprintf("%s: %q is not a number", name, values.Get(name)))
		}
		return n
	}
	// As in the conversion of apimachinery: everything else is true.
	flag := func(name string) bool {
		return !slices.Contains([]string{"", "false", "0"}, strings.ToLower(values.Get(name)))
	}
	to := &q.request
	to.Limit = number("limit")
	if seconds := number("timeoutSeconds"); seconds != 0 {
		to.TimeoutSeconds = &seconds
	}
	to.Continue = values.Get("continue")
	to.ResourceVersion = values.Get("resourceVersion")
	to.ResourceVersionMatch = metav1.ResourceVersionMatch(values.Get("resourceVersionMatch"))
	to.LabelSelector, to.FieldSelector = values.Get("labelSelector"), values.Get("fieldSelector")
	to.AllowWatchBookmarks = flag("allowWatchBookmarks")
	if values.Has("sendInitialEvents") {
		initial := flag("sendInitialEvents")
		to.SendInitialEvents = &initial
	}
}

// negotiate decides as the kube-apiserver does: the first acceptable clause counts, even if it does not fit the verb.
// There is protobuf for metadata only.
func (q *query) negotiate(header string, protobuf bool) error {
	if header == "" {
		return nil
	}
	for clause := range strings.SplitSeq(strings.ReplaceAll(header, " ", ""), ",") {
		mediaType, params, err := mime.ParseMediaType(clause)
		inProtobuf := protobuf && mediaType == runtime.ContentTypeProtobuf
		if err != nil ||
			!inProtobuf && !slices.Contains([]string{"application/json", "application/*", "*/*"}, mediaType) {
			continue
		}
		switch as := params["as"]; {
		case as == "" && inProtobuf:
		case as == "", as == "PartialObjectMetadataList" && q.request.Verb == "watch":
			// For a watch the server fails to convert to a list, logs that, and sends whole objects
			// (apiserver endpoints/handlers/response.go, watchEmbeddedEncoder).
			return nil
		case params["g"] != "meta.k8s.io" || params["v"] != "v1" || !strings.HasPrefix(as, "PartialObjectMetadata"):
		case (as == "PartialObjectMetadataList") != (q.request.Verb == "list"):
			return notAcceptable("requested " + as + " for a " + q.request.Verb)
		default:
			q.request.Metadata, q.request.Protobuf = true, inProtobuf
			return nil
		}
	}
	return notAcceptable("only the following media types are accepted: application/json")
}

func notAcceptable(message string) error {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, message)
}
