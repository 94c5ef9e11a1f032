package apiserver

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/door"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
)

// Server is a Kubernetes API server in the test's process: that of streamtest.Server, whose comments say what each
// method does, but with every fault. The zero Server serves no resource.
type Server struct {
	mu     sync.Mutex // guards the three; never held while a connection is written to
	store  *store.Store
	script *script.Script
	door   *door.Door // nil, as the others, until the first lock
}

// NewServer makes a server of these resources.
func NewServer(resources ...gvr.Resource) *Server {
	s := &Server{}
	s.Serve(resources...)
	return s
}

// Reviews returns the resources with which a client asks for its rights: SelfSubjectAccessReview and
// SelfSubjectRulesReview. A Server that serves them answers according to the forbid and allow actions so far.
func Reviews() (all []gvr.Resource) {
	for _, kind := range []string{"SelfSubjectAccessReview", "SelfSubjectRulesReview"} {
		name := door.Reviews.WithResource(strings.ToLower(kind) + "s")
		all = append(all, gvr.Resource{GroupVersionResource: name, Kind: kind, Verbs: []string{"create"}})
	}
	return all
}

// lock locks the server, and runs the actions that are due. Every method calls it, so that none depends on when the
// timer's goroutine runs, and the zero Server works.
func (s *Server) lock() (unlock func()) {
	s.mu.Lock()
	if s.door == nil {
		s.store, s.script = store.New(), script.New(func() { s.lock()() })
		s.door = door.New(s.lock, s.store, s.script)
	}
	if s.script.RunDue() {
		s.door.Wake()
	}
	was := s.store.Revisions().Newest()
	return func() {
		if s.store.Revisions().Newest() != was {
			s.door.Wake()
		}
		s.mu.Unlock()
	}
}

// Apply adds the lines of a script, or none if it returns an error.
func (s *Server) Apply(l script.Language, text string) error {
	defer s.lock()()
	defer s.door.Wake()
	return s.script.Apply(l, s.store.Catalog().Known(), text, s.do)
}

// Do runs an action now.
func (s *Server) Do(l script.Language, what string) error {
	defer s.lock()()
	defer s.door.Wake()
	a, err := l.Action(s.store.Catalog().Known(), what)
	if err == nil {
		s.do(a)
	}
	return err
}

// do does an action. The lock is held.
func (s *Server) do(a script.Action) {
	revisions := s.store.Revisions()
	each := func(do func(gvr.Resource)) {
		for _, r := range s.store.Catalog().Known() {
			if a.Resources.Has(r.GroupVersionResource) {
				do(r)
			}
		}
	}
	switch a.Usage {
	case "compact", "restart":
		revisions.Compact(revisions.Newest())
	case "rewind N", "rewind N restart":
		revisions.Rewind(revisions.Back(a.N))
	case "heal": // deleted CRDs stay deleted
		s.script.Heal()
		s.door.Heal()
	case "expire": // what clients see of a change of a CRD's schema: watches end, and versions expire
		each(func(r gvr.Resource) { revisions.Expire(r.GroupResource()) })
		s.door.Watches(a.Resources)()
	case "delete crd": // watches end a second later, as in apiextensions-apiserver
		s.script.After(time.Second, s.door.Watches(a.Resources))
		each(s.store.DeleteCRD)
	case "create crd":
		each(s.store.CreateCRD)
	default:
		s.door.Do(a)
	}
	if strings.HasSuffix(a.Usage, "restart") {
		s.door.Restart()
	}
}

// CheckScript returns an error that names the lines of scripts that have had no effect so far.
func (s *Server) CheckScript() error {
	defer s.lock()()
	return s.script.Check()
}

func (s *Server) Serve(resources ...gvr.Resource) {
	defer s.lock()()
	for _, r := range resources {
		if r.Version == "" || r.Resource == "" || r.Kind == "" {
			panic("streamtest: invalid resource " + strconv.Quote(r.String()) +
				": must have a version, a plural and a kind")
		}
		s.store.Catalog().Serve(r)
	}
}

func (s *Server) Unserve(resources ...gvr.Resource) {
	defer s.lock()()
	for _, r := range resources {
		s.store.Catalog().Unserve(r)
		s.door.Watches(script.Resources{r})()
	}
}

// ServeHTTP answers as a kube-apiserver does, or as a script says.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.lock()() // there is a door from now on
	s.door.ServeHTTP(w, r)
}

func (s *Server) Config() *rest.Config {
	return &rest.Config{
		Host: "http://streamtest", Transport: door.Transport{Handler: s}, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

func (s *Server) Client() dynamic.Interface { return dynamic.NewForConfigOrDie(s.Config()) }

func (s *Server) Close() {
	defer s.lock()()
	s.door.Close()
	s.script.Stop()
}

func (s *Server) ResourceVersion() string {
	defer s.lock()()
	return store.FormatVersion(s.store.Revisions().Newest())
}

func (s *Server) Compact(rv string) {
	defer s.lock()()
	rev := s.store.Revisions().Newest()
	if rv != "" {
		if rev = store.ParseVersion(rv); rev < 0 {
			panic("streamtest: invalid resourceVersion " + strconv.Quote(rv) + ": must be a number")
		}
	}
	s.store.Revisions().Compact(rev)
}

func (s *Server) Create(r gvr.Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	defer s.lock()()
	object = cmp.Or(object, &unstructured.Unstructured{})
	return s.store.Create(r, object.GetNamespace(), object)
}

func (s *Server) Update(r gvr.Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	defer s.lock()()
	object = cmp.Or(object, &unstructured.Unstructured{})
	return s.store.Update(r, object.GetNamespace(), object.GetName(), object)
}

func (s *Server) Delete(r gvr.Resource, namespace, name string) (*unstructured.Unstructured, error) {
	defer s.lock()()
	return s.store.Delete(r, namespace, name)
}

func (s *Server) Put(r gvr.Resource, namespace, name string, fields ...string) *unstructured.Unstructured {
	defer s.lock()()
	stored, err := s.store.Put(r, namespace, name, fields)
	if err != nil {
		panic("streamtest: Put " + store.Key(namespace, name) + ": " + err.Error())
	}
	return stored
}

// Replay serves the resources that are not served, makes some changes now, and others at their times from now on. If a
// resource is served otherwise, it does nothing, and returns an error.
func (s *Server) Replay(resources []gvr.Resource, now, later []store.Recorded) error {
	defer s.lock()()
	all := s.store.Catalog().Served()
	for _, r := range resources {
		for _, other := range all {
			if other.GroupResource() == r.GroupResource() &&
				(other.Kind != r.Kind || other.Namespaced != r.Namespaced) {
				return fmt.Errorf("%s is a %s, namespaced: %t; %s is a %s, namespaced: %t: must be the same",
					r, r.Kind, r.Namespaced, other, other.Kind, other.Namespaced)
			}
		}
		all = append(all, r)
	}
	for _, r := range resources {
		if _, err := s.store.Catalog().Find(r.GroupVersionResource); err != nil {
			s.store.Catalog().Serve(r)
		}
	}
	for _, c := range now {
		s.store.Redo(c)
	}
	s.redo(time.Now(), later)
	return nil
}

// redo makes the changes that are due, and schedules the next one. They stay in their order, also if a clock went back.
// The lock is held.
func (s *Server) redo(begin time.Time, changes []store.Recorded) {
	for len(changes) > 0 && time.Since(begin) >= changes[0].After {
		s.store.Redo(changes[0])
		changes = changes[1:]
	}
	if len(changes) > 0 {
		due := begin.Add(changes[0].After)
		s.script.After(time.Until(due), func() { s.redo(begin, changes) })
	}
}

// Log is what happened to the objects of a Selection.
type Log struct {
	Changes, Rewinds []store.Change // as store.Log returns them
	Requests         []door.Request // for this resource, in any namespace
}

// Log returns what a watch of r would have received if it had missed nothing. It returns an error for a selector that
// does not parse.
func (s *Server) Log(r gvr.Resource, of store.Selection) (Log, error) {
	v, err := store.NewView(r, of)
	if err != nil {
		return Log{}, fmt.Errorf("streamtest: invalid selector: %w", err)
	}
	defer s.lock()()
	changes, rewinds := s.store.Revisions().Log(v)
	others := func(q door.Request) bool { return q.Resource != r.String() }
	return Log{changes, rewinds, slices.DeleteFunc(s.door.Requests(), others)}, nil
}

func (s *Server) Requests() []door.Request {
	defer s.lock()()
	return s.door.Requests()
}
