package store

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Recorded is a change as a watch of some server delivered it.
type Recorded struct {
	After    time.Duration // since the recording began
	Type     watch.EventType
	Resource gvr.Resource
	Object   *unstructured.Unstructured // has a name, and a namespace if the resource is namespaced
}

// Redo makes a recorded change, also of a resource that is not served. The object keeps all but its resourceVersion. It
// must not be changed after. One of another uid is removed before. ADDED makes no version if the object is in that
// state; a removal of what does not exist makes none, either.
func (st *Store) Redo(c Recorded) {
	r, o, uid := c.Resource, c.Object, c.Object.GetUID()
	key := Key(o.GetNamespace(), o.GetName())
	was := unstructured.Unstructured{Object: st.revisions.object(r.GroupResource(), key)}
	exists := was.Object != nil
	another := exists && was.GetUID() != uid
	switch {
	case c.Type == watch.Deleted:
		if exists && !another {
			st.revisions.write(r.GroupResource(), key, nil)
		}
		return
	case another:
		st.revisions.write(r.GroupResource(), key, nil)
	case exists && c.Type == watch.Added:
		strip(o.Object)
		if o.SetResourceVersion(was.GetResourceVersion()); reflect.DeepEqual(o.Object, was.Object) {
			return
		}
	}
	var n int // a recording of this kind of server has uids that Create would use again
	if _, err := fmt.Sscanf(string(uid), uidFormat, &n); err == nil {
		st.uids = max(st.uids, n)
	}
	st.write(r, key, o.Object)
}
