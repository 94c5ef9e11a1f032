package streamtest

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Change is one change of an object, as a watch sends it.
type Change struct {
	Type            watch.EventType            // ADDED, MODIFIED, DELETED
	Object          *unstructured.Unstructured // as a watch would send it
	ResourceVersion string
	Epoch           int // how often the server had gone back in time before it
	At              time.Time
}

// Rewind is the moment at which a server went back in time. Epoch i>0 begins with
// Rewinds[i-1]: the objects are again what they were at To.
type Rewind struct {
	To string
	At time.Time
}

// History is what truly happened to the objects that a Stream with some Options watches.
type History struct {
	Changes  []Change  // in the order in which they happened, those too that a rewind undid
	Rewinds  []Rewind  // of the whole server
	Requests []Request // for this resource, in any namespace
}

// At is what existed at a version, in an epoch of at most len(Rewinds). A version that
// the epoch has not reached stands for its end.
func (h History) At(epoch int, rv string) map[types.NamespacedName]*unstructured.Unstructured {
	objects := map[types.NamespacedName]*unstructured.Unstructured{}
	t := timelines(h, "", &CheckOptions{})[epoch]
	for _, e := range t[:t.position(rv)] {
		if objects[e.key] = e.object; !e.exists {
			delete(objects, e.key)
		}
	}
	return objects
}

// History is what a watch of r would have received had it never missed anything: an
// object that begins to match is ADDED, one that no longer does is DELETED. Of the
// options Namespaces, LabelSelector, FieldSelector and Name count; nil means every
// object. It panics if a selector does not parse.
func (s *Server) History(r gvr.Resource, o *stream.Options) History {
	if o == nil {
		o = &stream.Options{}
	}
	v, err := newView(r, o)
	if err != nil {
		panic("streamtest: " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDue()
	h := History{Rewinds: slices.Clone(s.store.rewinds)}
	for _, c := range s.store.all {
		if c.resource != r.GroupResource() {
			continue
		}
		if kind, object := v.event(c); kind != "" {
			h.Changes = append(h.Changes, Change{
				Type: kind, Object: &unstructured.Unstructured{Object: object},
				ResourceVersion: formatVersion(c.rev), Epoch: c.epoch, At: c.at,
			})
		}
	}
	for _, q := range s.requests {
		if q.Resource == r.String() {
			h.Requests = append(h.Requests, q)
		}
	}
	return h
}

// view is how one list or watch sees the objects of a resource.
type view struct {
	resource   gvr.Resource
	namespaces []string
	labels     labels.Selector
	fields     fields.Selector
	metadata   bool // PartialObjectMetadata
}

func newView(r gvr.Resource, o *stream.Options) (view, error) {
	v := view{resource: r, namespaces: o.Namespaces}
	var err error
	if v.labels, err = labels.Parse(o.LabelSelector); err != nil {
		return v, err
	}
	if v.fields, err = fields.ParseSelector(o.FieldSelector); err == nil && o.Name != "" {
		v.fields = fields.AndSelectors(v.fields, fields.OneTermEqualSelector("metadata.name", o.Name))
	}
	return v, err
}

func (v view) matches(o map[string]any) bool {
	if o == nil {
		return false
	}
	u := unstructured.Unstructured{Object: o}
	if len(v.namespaces) > 0 && !slices.Contains(v.namespaces, u.GetNamespace()) {
		return false
	}
	return v.labels.Matches(labels.Set(u.GetLabels())) && v.fields.Matches(fieldSet{o})
}

// event is c as this view sees it; no type if it does not. An object that leaves
// the view is sent as it was, with the version at which it left, as the
// kube-apiserver does (apiserver storage/cacher/cache_watcher.go).
func (v view) event(c *change) (watch.EventType, map[string]any) {
	was, is := v.matches(c.old), v.matches(c.new)
	switch {
	case is && was:
		return watch.Modified, v.render(c.new)
	case is:
		return watch.Added, v.render(c.new)
	case was:
		o := v.render(c.old)
		o["metadata"].(map[string]any)["resourceVersion"] = formatVersion(c.rev)
		return watch.Deleted, o
	}
	return "", nil
}
