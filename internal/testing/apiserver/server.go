package apiserver

import (
	"net/http"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Server is a Kubernetes API server in the test's process: that of streamtest.Server, whose comments say what each
// method does, but with every fault. The zero Server serves no resource.
type Server struct {
	mu    sync.Mutex // guards state; never held while a connection is written to
	state state
}

// NewServer makes a server of these resources.
func NewServer(resources ...gvr.Resource) *Server {
	s := &Server{}
	s.Serve(resources...)
	return s
}

// lock locks the server, and runs the actions that are due. Every method calls it, so that none depends on when the
// timer's goroutine runs, and the zero Server works.
func (s *Server) lock() (unlock func()) {
	s.mu.Lock()
	if s.state.store == nil {
		s.state.init(s.tick)
	}
	s.state.runDue()
	return s.mu.Unlock
}

func (s *Server) tick() { s.lock()() }

// Serve adds resources, or replaces those of the same name.
func (s *Server) Serve(resources ...gvr.Resource) {
	defer s.lock()()
	for _, r := range resources {
		if r.Version == "" || r.Resource == "" || r.Kind == "" {
			panic("streamtest: invalid resource " + strconv.Quote(r.String()) +
				": must have a version, a plural and a kind")
		}
		s.state.catalog.add(r)
	}
}

// Unserve stops serving resources.
func (s *Server) Unserve(resources ...gvr.Resource) {
	defer s.lock()()
	for _, r := range resources {
		s.state.catalog.remove(r)
		s.state.end(endClean, watchesAmong([]gvr.Resource{r}))
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
	s.state.closed = true
	for c := range s.state.conns {
		c.drop()
	}
	s.state.agenda.stop()
}

// ResourceVersion returns the newest version.
func (s *Server) ResourceVersion() string {
	defer s.lock()()
	return formatVersion(s.state.store.rev)
}

// Compact lets all versions before rv expire.
func (s *Server) Compact(rv string) {
	defer s.lock()()
	rev := s.state.store.rev
	if rv != "" {
		if rev = parseVersion(rv); rev < 0 {
			panic("streamtest: invalid resourceVersion " + strconv.Quote(rv) + ": must be a number")
		}
	}
	s.state.store.compact(rev)
}

// unknownResource returns the 404 of a path where nothing is served.
func unknownResource() *apierrors.StatusError {
	err := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, false)
	err.ErrStatus.Details = nil
	return err
}

func joinKey(namespace, name string) string { return strings.TrimPrefix(namespace+"/"+name, "/") }
