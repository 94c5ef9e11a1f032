package apiserver

import (
	"net/http"
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

// Server is a Kubernetes API server in the test's process: that of streamtest.Server, whose comments say what each
// method does, but with every fault. The zero Server serves no resource.
//
// It has 11 fields because each is a part with methods of its own: what is stored, served, permitted, scripted, due.
type Server struct {
	mu       sync.Mutex // never held while a connection is written to
	closed   bool
	store    *store // nil until init
	catalog  catalog
	rights   rights
	script   script
	agenda   agenda
	habits   habits
	changed  chan struct{} // closed and replaced when watches may have something to send
	requests []Request
	conns    map[*conn]struct{}
}

// habits are what actions change about watches, for longer than one request.
type habits struct {
	noProtobuf    bool          // metadata is sent as JSON only
	bookmarkEvery time.Duration // 0: none
	expiredForm   string        // how watches from expired versions are refused: "", "status" or "close"
}

// NewServer makes a server of these resources.
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

// lock locks the server, and runs the actions that are due.
func (s *Server) lock() (unlock func()) {
	s.mu.Lock()
	s.runDue()
	return s.mu.Unlock
}

// Serve adds resources, or replaces those of the same name.
func (s *Server) Serve(resources ...gvr.Resource) {
	defer s.lock()()
	for _, r := range resources {
		if r.Version == "" || r.Resource == "" || r.Kind == "" {
			panic("streamtest: invalid resource " + strconv.Quote(r.String()) +
				": must have a version, a plural and a kind")
		}
		s.catalog.add(r)
	}
}

// Unserve stops serving resources.
func (s *Server) Unserve(resources ...gvr.Resource) {
	defer s.lock()()
	for _, r := range resources {
		s.catalog.remove(r)
		s.end(endClean, watchesAmong([]gvr.Resource{r}))
	}
}

// Config configures clients of this server.
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

// Close breaks all connections and refuses new ones.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		c.drop()
	}
	s.agenda.stop()
}

// ResourceVersion returns the newest version.
func (s *Server) ResourceVersion() string {
	defer s.lock()()
	return formatVersion(s.store.rev)
}

// Compact lets all versions before rv expire.
func (s *Server) Compact(rv string) {
	defer s.lock()()
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
