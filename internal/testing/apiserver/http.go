package apiserver

import (
	"cmp"
	"context"
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
)

// query is a parsed request.
type query struct {
	Request
	group, version, plural string
	resource               gvr.Resource // as served; zero if it is not
	bad                    error        // why the request is invalid
	lag                    int          // how many changes old the state in the answer is
}

// ServeHTTP answers as a kube-apiserver does, or as a script says.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := readQuery(r)
	c, f := s.admit(w, r, q)
	defer s.release(c)
	if c.alive.Err() != nil {
		c.refuse()
		return
	}
	if f != nil && c.injectBefore(q, f) {
		return
	}
	s.mu.Lock()
	err := s.state.rights.check(q)
	s.mu.Unlock()
	if err != nil {
		c.writeError(err)
		return
	}
	switch q.Verb {
	case "discovery":
		c.serveDiscovery()
	case "list":
		c.serveList(f)
	case "watch":
		c.serveWatch(f)
	default:
		c.serveObject()
	}
}

// admit records a request, and returns the fault that a script has for it.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, q *query) (*conn, *fault) {
	defer s.lock()()
	q.At = time.Now()
	if q.Verb != "discovery" && q.bad == nil {
		q.bad = q.negotiate(strings.Join(r.Header.Values("Accept"), ","), !s.state.habits.noProtobuf)
	}
	if q.resource, _ = s.state.catalog.find(q.group, q.version, q.plural); q.plural != "" {
		named := schema.GroupVersionResource{Group: q.group, Version: q.version, Resource: q.plural}
		q.Resource = gvr.Resource{GroupVersionResource: named}.String()
	}
	c := &conn{server: s, w: w, query: q, index: len(s.state.requests)}
	c.alive, c.drop = context.WithCancel(r.Context())
	var open context.Context
	open, c.cut = context.WithCancel(c.alive)
	if c.r = r.WithContext(open); s.state.closed {
		c.drop()
	}
	s.state.requests = append(s.state.requests, q.Request)
	s.state.conns[c] = struct{}{}
	return c, s.state.script.faultFor(q)
}

func (s *Server) release(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.state.conns, c)
	c.drop()
}

func readQuery(r *http.Request) *query {
	q := &query{Request: Request{Path: r.URL.Path}}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/version", parts[0] == "api" && len(parts) <= 2, parts[0] == "apis" && len(parts) <= 3:
		q.Verb = "discovery"
		return q
	case parts[0] == "api":
		q.version, parts = parts[1], parts[2:]
	case parts[0] == "apis":
		q.group, q.version, parts = parts[1], parts[2], parts[3:]
	default:
		q.bad = unknownResource()
		return q
	}
	// /namespaces/NAME is an object of the resource namespaces.
	if parts[0] == "namespaces" && len(parts) > 2 &&
		!(len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")) {
		q.Namespace, parts = parts[1], parts[2:]
	}
	q.plural = parts[0]
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		q.bad = apierrors.NewBadRequest(err.Error())
	}
	q.readOptions(values)
	q.Verb = verbOf(r.Method, q.Name != "", values)
	if q.Verb == "watch" && q.Name != "" {
		if q.FieldSelector == "" {
			q.FieldSelector = "metadata.name=" + q.Name
		}
		q.Name = ""
	}
	if len(parts) > 2 { // subresources: none
		q.bad = unknownResource()
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
	q.Limit = number("limit")
	if seconds := number("timeoutSeconds"); seconds != 0 {
		q.TimeoutSeconds = &seconds
	}
	q.Continue = values.Get("continue")
	q.ResourceVersion = values.Get("resourceVersion")
	q.ResourceVersionMatch = metav1.ResourceVersionMatch(values.Get("resourceVersionMatch"))
	q.LabelSelector, q.FieldSelector = values.Get("labelSelector"), values.Get("fieldSelector")
	q.AllowWatchBookmarks = flag("allowWatchBookmarks")
	if values.Has("sendInitialEvents") {
		initial := flag("sendInitialEvents")
		q.SendInitialEvents = &initial
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
		case as == "", as == "PartialObjectMetadataList" && q.Verb == "watch":
			// For a watch the server fails to convert to a list, logs that, and sends whole objects
			// (apiserver endpoints/handlers/response.go, watchEmbeddedEncoder).
			return nil
		case params["g"] != "meta.k8s.io" || params["v"] != "v1" || !strings.HasPrefix(as, "PartialObjectMetadata"):
		case (as == "PartialObjectMetadataList") != (q.Verb == "list"):
			return notAcceptable("requested " + as + " for a " + q.Verb)
		default:
			q.Metadata, q.Protobuf = true, inProtobuf
			return nil
		}
	}
	return notAcceptable("only the following media types are accepted: application/json")
}

func notAcceptable(message string) error {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, message)
}
