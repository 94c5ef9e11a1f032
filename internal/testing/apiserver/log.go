package apiserver

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Selection says which objects of a resource a list, a watch or a Log has. The zero Selection is all of them.
type Selection struct {
	Namespaces     []string
	Labels, Fields string // selectors
	Name           string // of one object; empty means any
}

// Log is what happened to the objects of a Selection.
type Log struct {
	Changes  []Change // in the order in which they happened, including those that a rewind undid
	Rewinds  []Rewind
	Requests []Request // for this resource, in any namespace
}

// Change is a streamtest.Change.
type Change struct {
	Type            watch.EventType
	Object          *unstructured.Unstructured
	ResourceVersion string
	Epoch           int
	At              time.Time
}

// Rewind is a streamtest.Rewind.
type Rewind struct {
	To string
	At time.Time
}

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

// Log returns what a watch of r would have received if it had missed nothing. It returns an error for a selector that
// does not parse.
func (s *Server) Log(r gvr.Resource, of Selection) (Log, error) {
	v, err := newView(r, of)
	if err != nil {
		return Log{}, fmt.Errorf("streamtest: invalid selector: %w", err)
	}
	defer s.lock()()
	l := Log{Rewinds: slices.Clone(s.state.store.rewinds)}
	for _, c := range s.state.store.all {
		if c.resource != r.GroupResource() {
			continue
		}
		if kind, object := v.event(c); kind != "" {
			l.Changes = append(l.Changes, Change{
				Type: kind, Object: &unstructured.Unstructured{Object: object},
				ResourceVersion: formatVersion(c.rev), Epoch: c.epoch, At: c.at,
			})
		}
	}
	for _, q := range s.state.requests {
		if q.Resource == r.String() {
			l.Requests = append(l.Requests, q)
		}
	}
	return l, nil
}

// Requests returns all requests so far, in the order of their arrival.
func (s *Server) Requests() []Request {
	defer s.lock()()
	return slices.Clone(s.state.requests)
}
