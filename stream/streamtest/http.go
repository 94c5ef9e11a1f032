package streamtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// query is a request, read.
type query struct {
	Request
	group, version, plural string
	resource               gvr.Resource // as served; zero if it is not
	hasInitial             bool         // there was a sendInitialEvents, true or not
	bad                    error        // why it can't be read
	lag                    int          // answer with the state of so many changes ago
}

// ServeHTTP answers as a kube-apiserver does, or as the script says.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := readQuery(r)
	c, f := s.admit(w, r, q)
	defer s.release(c)
	if c.alive.Err() != nil {
		c.refuse()
		return
	}
	if f != nil && c.disturb(q, f) {
		return
	}
	if err := s.permitted(q); err != nil {
		c.writeError(err)
		return
	}
	switch q.Verb {
	case "discovery":
		s.serveDiscovery(c)
	case "list":
		s.serveList(c, q, f)
	case "watch":
		s.serveWatch(c, q, f)
	default:
		s.serveObject(c, q)
	}
}

// admit records a request and finds out what the script wants done with it.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, q *query) (*conn, *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	q.At = time.Now()
	if q.resource, _ = s.find(q.group, q.version, q.plural); q.plural != "" {
		named := schema.GroupVersionResource{Group: q.group, Version: q.version, Resource: q.plural}
		q.Resource = gvr.Resource{GroupVersionResource: named}.String()
	}
	c := &conn{server: s, w: w, query: q, index: len(s.requests)}
	c.alive, c.drop = context.WithCancel(r.Context())
	var open context.Context
	open, c.cut = context.WithCancel(c.alive)
	if c.r = r.WithContext(open); s.closed {
		c.drop()
	}
	s.requests = append(s.requests, q.Request)
	s.conns[c] = struct{}{}
	return c, s.faultFor(q)
}

func (s *Server) release(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	c.drop()
}

// permitted says whether the caller may do this, and whether it can be done.
func (s *Server) permitted(q *query) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unauthorized {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	if q.Verb == "discovery" || q.Resource == "" {
		return q.bad
	}
	gr := schema.GroupResource{Group: q.group, Resource: q.plural}
	if s.forbidden(q) {
		where := "at the cluster scope"
		if q.Namespace != "" {
			where = fmt.Sprintf("in the namespace %q", q.Namespace)
		}
		why := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", "streamtest", q.Verb, q.plural, q.group, where)
		return apierrors.NewForbidden(gr, q.Name, errors.New(why))
	}
	switch {
	case q.resource.Resource == "",
		!q.resource.Namespaced && q.Namespace != "",
		q.resource.Namespaced && q.Namespace == "" && q.Verb != "list" && q.Verb != "watch":
		return unknownResource()
	case !slices.Contains(q.resource.Verbs, q.Verb):
		return apierrors.NewMethodNotSupported(gr, q.Verb)
	}
	return q.bad
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
	if parts[0] == "namespaces" && len(parts) > 2 && !(len(parts) == 3 && (parts[2] == "status" || parts[2] == "finalize")) {
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
	if q.bad == nil {
		q.Metadata, q.bad = acceptsMetadata(strings.Join(r.Header.Values("Accept"), ","), q.Verb)
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
	// As apimachinery's conversion does: all but these is true.
	flag := func(name string) bool {
		return !slices.Contains([]string{"", "false", "0"}, strings.ToLower(values.Get(name)))
	}
	q.Limit, q.TimeoutSeconds = number("limit"), number("timeoutSeconds")
	q.Continue = values.Get("continue")
	q.ResourceVersion, q.ResourceVersionMatch = values.Get("resourceVersion"), values.Get("resourceVersionMatch")
	q.LabelSelector, q.FieldSelector = values.Get("labelSelector"), values.Get("fieldSelector")
	q.hasInitial = values.Has("sendInitialEvents")
	q.SendInitialEvents, q.Bookmarks = flag("sendInitialEvents"), flag("allowWatchBookmarks")
}

// acceptsMetadata negotiates as the kube-apiserver does: the first acceptable
// clause counts, of which it doesn't ask whether it fits a list or an object.
func acceptsMetadata(header, verb string) (bool, error) {
	if header == "" {
		return false, nil
	}
	for clause := range strings.SplitSeq(strings.ReplaceAll(header, " ", ""), ",") {
		mediaType, params, err := mime.ParseMediaType(clause)
		if err != nil || !slices.Contains([]string{"application/json", "application/*", "*/*"}, mediaType) {
			continue
		}
		switch as := params["as"]; {
		case as == "", as == "PartialObjectMetadataList" && verb == "watch":
			// Of the latter the server logs that it can't convert, and sends whole objects
			// (apiserver endpoints/handlers/response.go, watchEmbeddedEncoder).
			return false, nil
		case params["g"] != "meta.k8s.io" || params["v"] != "v1" || !strings.HasPrefix(as, "PartialObjectMetadata"):
		case (as == "PartialObjectMetadataList") != (verb == "list"):
			return false, notAcceptable("you requested " + as + " of a " + verb)
		default:
			return true, nil
		}
	}
	return false, notAcceptable("only the following media types are accepted: application/json")
}

func notAcceptable(message string) error {
	return failure(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, message)
}

func failure(code int32, reason metav1.StatusReason, message string) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
	return &apierrors.StatusError{ErrStatus: status}
}

func statusOf(err error) metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	out := status.Status()
	out.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return out
}

// writeError answers with a Status, and with Retry-After if that names a time.
func (c *conn) writeError(err error) {
	status := statusOf(err)
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	c.writeJSON(int(status.Code), status)
}

func (c *conn) writeJSON(code int, body any) {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // all that is served here came from JSON, or goes into it
	}
	c.header(code, "application/json")
	_, _ = c.w.Write(append(data, '\n'))
}
