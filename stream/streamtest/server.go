package streamtest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Server is a Kubernetes API server in the test's process. Clients reach it through [Server.Config] without a
// network, or as an http.Handler. Its methods may be called from any goroutine. A Server that is used inside a
// testing/synctest bubble must be created there. The zero Server serves no resource.
type Server struct {
	mu       sync.Mutex // never held while a connection is written to
	closed   bool
	store    *store
	served   []gvr.Resource
	known    []gvr.Resource // ever served
	changed  chan struct{}  // closed and replaced when watches may have something to send
	requests []Request
	conns    map[*conn]struct{}
	uids     int

	scripted
}

// scripted is the state that Apply and Do set.
type scripted struct {
	lines         []*line // of all scripts
	live          []*line // since "heal"
	pending       []timed // by due time
	timer         *time.Timer
	rights        []right
	unauthorized  bool
	noProtobuf    bool // metadata is sent as JSON only
	downGroups    map[string]bool
	bookmarkEvery time.Duration // 0: none
	expiredForm   string        // how watches from expired versions are refused: "", "status" or "close"
}

// NewServer makes a server of these resources, without objects, at resourceVersion 1. A resource without Verbs supports
// create, delete, get, list, update and watch. NewServer panics if a resource lacks its version, plural or kind.
func NewServer(resources ...gvr.Resource) *Server {
	s := &Server{}
	s.Serve(resources...)
	return s
}

// init makes a zero Server ready.
func (s *Server) init() {
	s.store, s.changed, s.conns = newStore(), make(chan struct{}), map[*conn]struct{}{}
	s.heal()
}

// Serve adds resources, as the creation of a CRD does, or replaces served resources of the same name, for example to
// change their verbs. Versions of one resource share their objects.
func (s *Server) Serve(resources ...gvr.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	for _, r := range resources {
		if r.Version == "" || r.Resource == "" || r.Kind == "" {
			panic("streamtest: invalid resource " + strconv.Quote(r.String()) +
				": must have a version, a plural and a kind")
		}
		if len(r.Verbs) == 0 {
			r.Verbs = slices.Clone(everyVerb)
		}
		s.unserve(r)
		s.served = append(s.served, r)
		s.known = append(slices.DeleteFunc(s.known, sameName(r)), r)
	}
}

var everyVerb = []string{"create", "delete", "get", "list", "update", "watch"}

// Unserve stops serving resources, as if a version of a CRD were no longer served: their watches end, requests get 404,
// and the objects remain.
func (s *Server) Unserve(resources ...gvr.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	for _, r := range resources {
		s.unserve(r)
		s.end(endClean, watchesAmong([]gvr.Resource{r}))
	}
}

func (s *Server) unserve(r gvr.Resource) {
	s.served = slices.DeleteFunc(s.served, sameName(r))
}

func sameName(r gvr.Resource) func(gvr.Resource) bool {
	return func(x gvr.Resource) bool { return x.GroupVersionResource == r.GroupVersionResource }
}

// find returns the resource that is served under a name.
func (s *Server) find(group, version, plural string) (gvr.Resource, bool) {
	for _, r := range s.served {
		if r.Group == group && r.Version == version && r.Resource == plural {
			return r, true
		}
	}
	return gvr.Resource{}, false
}

// Config configures clients of this server. Its transport uses no network, so that clients can run in a synctest
// bubble.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host: "http://streamtest", Transport: transport{s}, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// Client returns client-go's dynamic client for Config.
func (s *Server) Client() dynamic.Interface {
	return dynamic.NewForConfigOrDie(s.Config())
}

// Close breaks all connections and refuses new ones. A server in a bubble need not be closed if its clients end their
// requests.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.pending = true, nil
	for c := range s.conns {
		c.drop()
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}

// ResourceVersion returns the newest version. All resources share one counter, as in etcd.
func (s *Server) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	return formatVersion(s.store.rev)
}

// Compact lets all versions before rv expire: watches and continue tokens from there get 410. An empty rv means the
// newest version. Compact panics if rv is not a version.
func (s *Server) Compact(rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	rev := s.store.rev
	if rv != "" {
		if rev = parseVersion(rv); rev < 0 {
			panic("streamtest: invalid resourceVersion " + strconv.Quote(rv) + ": must be a number")
		}
	}
	s.store.compact(rev)
}

// wake lets the watches send what has changed.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// unknownResource returns the 404 of a path where nothing is served.
func unknownResource() *apierrors.StatusError {
	err := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Details = nil
	return err
}

func joinKey(namespace, name string) string { return strings.TrimPrefix(namespace+"/"+name, "/") }
