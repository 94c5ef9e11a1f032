package streamtest

import (
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/script"
)

// Server is a Kubernetes API server in the test's process. Clients reach it through [Server.Config] without a
// network, or as an http.Handler. Its methods may be called from any goroutine. A Server that is used inside a
// testing/synctest bubble must be created there. The zero Server serves no resource.
type Server struct {
	server apiserver.Server
	all    bool // scripts may have all faults of package apiserver
}

// NewServer makes a server of these resources, without objects, at resourceVersion 1. A resource without Verbs supports
// create, delete, get, list, update and watch. NewServer panics if a resource lacks its version, plural or kind.
func NewServer(resources ...gvr.Resource) *Server {
	s := &Server{}
	s.Serve(resources...)
	return s
}

// AllFaults lets scripts have all faults of package apiserver, for the tests of this module. It returns s.
func (s *Server) AllFaults(friend.Access) *Server {
	s.all = true
	return s
}

// WithReviews serves the resources with which a client asks for its rights: SelfSubjectAccessReview and
// SelfSubjectRulesReview. The answers follow the forbid and allow actions so far. It returns s.
func (s *Server) WithReviews() *Server {
	s.Serve(apiserver.Reviews()...)
	return s
}

// Apply adds the lines of a script, whose language the package documentation describes. Requests and time count from
// this call on. If a line is invalid, or can never happen because an earlier line of this script or of one before
// applies first, Apply does nothing, and the error says which line, and what it must be.
func (s *Server) Apply(script string) error { return s.server.Apply(s.language(), script) }

// Do runs an action now, as the line "at 0s: ACTION" of a script does: "compact", "rewind 3", "widgets delete crd".
func (s *Server) Do(action string) error { return s.server.Do(s.language(), action) }

// CheckScript returns an error that names the lines of scripts that have had no effect so far: no request and no frame
// has met the fault, or the time of "at" has not come. Lines that "heal" has canceled are among them. A test calls it
// at its end, because a client that never met a fault has not survived it.
func (s *Server) CheckScript() error { return s.server.CheckScript() }

// Config configures clients of this server. Its transport uses no network, so that clients can run in a synctest
// bubble.
func (s *Server) Config() *rest.Config { return s.server.Config() }

// Client returns client-go's dynamic client for Config.
func (s *Server) Client() dynamic.Interface { return s.server.Client() }

// ServeHTTP answers as a kube-apiserver does, or as a script says.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.server.ServeHTTP(w, r) }

// Close breaks all connections and refuses new ones. A server in a bubble need not be closed if its clients end their
// requests.
func (s *Server) Close() { s.server.Close() }

// Serve adds resources, as the creation of a CRD does, or replaces served resources of the same name, for example to
// change their verbs. Versions of one resource share their objects. Serve panics as NewServer does.
func (s *Server) Serve(resources ...gvr.Resource) { s.server.Serve(resources...) }

// Unserve stops serving resources, as if a version of a CRD were no longer served: their watches end, requests get 404,
// and the objects remain.
func (s *Server) Unserve(resources ...gvr.Resource) { s.server.Unserve(resources...) }

// ResourceVersion returns the newest version. All resources share one counter, as in etcd.
func (s *Server) ResourceVersion() string { return s.server.ResourceVersion() }

// Compact lets all versions before rv expire: watches and continue tokens from there get 410. An empty rv means the
// newest version. Compact panics if rv is not a version.
func (s *Server) Compact(rv string) { s.server.Compact(rv) }

// Create stores a new object, and returns it with its uid and version. Its errors are those of
// k8s.io/apimachinery/pkg/api/errors: NotFound if the resource is not served, AlreadyExists, BadRequest.
func (s *Server) Create(r gvr.Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.server.Create(r, object)
}

// Update replaces an object. If the new object has a resourceVersion or a uid, they must be those of the stored one;
// otherwise the error is Conflict. An update without a change makes no new version.
func (s *Server) Update(r gvr.Resource, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return s.server.Update(r, object)
}

// Delete removes an object, and returns it as a watch sends it with DELETED. An object with finalizers is only marked
// with a deletionTimestamp; the update that removes its last finalizer removes it.
func (s *Server) Delete(r gvr.Resource, namespace, name string) (*unstructured.Unstructured, error) {
	return s.server.Delete(r, namespace, name)
}

// Put creates an object, or changes the existing one. A field is a dotted path and a value, such as "spec.size=3" or
// "spec.color=red". The value is JSON, or else a string. "labels.app=web" and "annotations.example.com/owner=me" stand
// for metadata.labels and metadata.annotations; the rest of the path is the key, which may have dots. Put panics if
// Create or Update would return an error, or if a field has no "=".
func (s *Server) Put(r gvr.Resource, namespace, name string, fields ...string) *unstructured.Unstructured {
	return s.server.Put(r, namespace, name, fields...)
}

// language is what scripts may have. A new word also needs a line in doc.go.
func (s *Server) language() script.Language {
	if s.all {
		return script.Everything()
	}
	return script.Language{
		Faults: []string{
			"CODE", "CODE plain", "CODE retry-after SECONDS", "refuse", "hang", "slow DURATION", "close", "half-open",
			"reset", "garbage", "stale N", "410 in stream", "error frame", "replay N", "no marker", "ignore initial",
		},
		Actions: []string{
			"compact", "restart", "rewind N", "rewind N restart", "unauthorized", "authorized",
			"discovery down GROUP", "discovery up GROUP", "bookmarks every SECONDS", "bookmarks never", "heal",
			"forbid VERB", "forbid VERB in NAMESPACE", "allow VERB", "allow VERB in NAMESPACE", "allow",
			"delete crd", "create crd", "expire", "close watches", "silence",
		},
	}
}
