package streamtest

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Server is a Kubernetes API server in this process. It is an http.Handler; its
// Config reaches it without a network. All of its methods may be called from any
// goroutine.
//
// Used inside a testing/synctest bubble, it must be created there too.
type Server struct {
	mu       sync.Mutex // never held while a connection is written to
	closed   bool
	store    *store
	served   []gvr.Resource
	known    []gvr.Resource // ever served
	changed  chan struct{}  // closed and replaced when a watch has to look
	requests []Request
	conns    map[*conn]struct{}
	uids     int

	scripted
}

// scripted is what Apply and Do have set.
type scripted struct {
	rules         []*rule
	poison        map[int64]fault
	pending       []timed // in the order in which they are due
	timer         *time.Timer
	rights        []right
	unauthorized  bool
	downGroups    map[string]bool
	bookmarkEvery time.Duration // 0: none
	expiredForm   string        // how a watch from an expired version is refused
}

// NewServer makes a server that serves these resources, without any objects, at
// resourceVersion 1. A resource without Verbs has all of them. It panics if a
// resource lacks its version, its plural or its kind.
func NewServer(resources ...gvr.Resource) *Server {
	s := &Server{
		store:   newStore(),
		changed: make(chan struct{}),
		conns:   map[*conn]struct{}{},
	}
	s.heal()
	s.Serve(resources...)
	return s
}

// Serve adds resources, as the creation of a CRD does, or replaces what is served
// of the same name: with other verbs, for example. Versions of one resource share
// their objects.
func (s *Server) Serve(resources ...gvr.Resource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	for _, r := range resources {
		if r.Version == "" || r.Resource == "" || r.Kind == "" {
			panic("streamtest: a resource needs its version, its plural and its kind: " + r.String())
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

// Unserve stops serving resources, as when a CRD's version is no longer served:
// their watches end, requests get 404, and their objects are kept.
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

// find is the resource served by that name.
func (s *Server) find(group, version, plural string) (gvr.Resource, bool) {
	for _, r := range s.served {
		if r.Group == group && r.Version == version && r.Resource == plural {
			return r, true
		}
	}
	return gvr.Resource{}, false
}

// Config is for clients of this server. Its transport needs no network, so that
// clients can be held in a synctest bubble.
func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host: "http://streamtest", Transport: transport{s}, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// Client is client-go's own dynamic client for Config.
func (s *Server) Client() dynamic.Interface {
	return dynamic.NewForConfigOrDie(s.Config())
}

// Close breaks all connections and refuses new ones. A server in a bubble need not
// be closed if its clients end what they began.
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

// ResourceVersion is the newest. All resources share one counter, as in etcd.
func (s *Server) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	return formatVersion(s.store.rev)
}

// Compact makes versions before rv expire: watches and continue tokens from there
// get 410. An empty rv is the newest. It panics if rv is not a version.
func (s *Server) Compact(rv string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	rev := s.store.rev
	if rv != "" {
		if rev = parseVersion(rv); rev < 0 {
			panic("streamtest: " + rv + " is not a resourceVersion")
		}
	}
	s.store.compact(rev)
}

// Requests are all requests so far, in the order in which they came.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	return slices.Clone(s.requests)
}

// Request is what a client asked for.
type Request struct {
	At time.Time
	// Verb is list, watch, get, create, update or delete; discovery for /api, /apis and
	// what is below them; empty for other paths; else the HTTP method in small letters.
	Verb string
	// Resource is as gvr.Resource.String writes it, "widgets.v1.example.com", or
	// empty; Path is always there.
	Resource, Path, Namespace, Name string

	ResourceVersion, ResourceVersionMatch string
	Limit                                 int64
	Continue                              string
	SendInitialEvents                     bool // asked for, and true
	Bookmarks                             bool
	TimeoutSeconds                        int64
	LabelSelector, FieldSelector          string
	Metadata                              bool // PartialObjectMetadata was asked for
	// Code is the status of the answer. It is 0 as long as there is none, and for
	// ever if the connection was refused or broken before.
	Code int
}

// wake lets the watches look.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// unknownResource is what a server says of a path where nothing is served.
func unknownResource() *apierrors.StatusError {
	err := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Details = nil
	return err
}

func joinKey(namespace, name string) string { return strings.TrimPrefix(namespace+"/"+name, "/") }
