package informer

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// list is what a List collects and returns.
type list struct {
	resource gvr.Resource
	states   *states                           // of an informer, else nil
	known    map[types.NamespacedName]identity // the names of the last states
	objects  map[identity]*item
	version  string
	items    runtime.Object
	retained []*unstructured.Unstructured // for the Watch that continues the List
}

// item is an object of a list. Until an informer's queue has it, it stands for its state, which may be of any type.
type item struct {
	name  types.NamespacedName
	state any   // the object, or what an informer's transform made of it
	err   error // of the transform
	// recreated: its name is known with another uid. If it were listed, handlers would receive an update. Instead, the
	// list lacks it, so that handlers receive the deletion of the old one, and the watch adds it, not transformed yet.
	recreated bool
}

func (i *item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

func (i *item) DeepCopyObject() runtime.Object { c := *i; return &c } // nothing calls it

// GetObjectMeta returns what client-go's queue needs for a key.
func (i *item) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.name.Namespace, Name: i.name.Name}
}

// newList returns an empty list. The last states must not change until it is complete.
func newList(r gvr.Resource, s *states) *list {
	l := &list{resource: r, states: s, objects: map[identity]*item{}}
	if s != nil {
		l.known = s.names()
	}
	return l
}

// collect applies an event of the snapshot.
func (l *list) collect(kind stream.Type, o *unstructured.Unstructured) {
	id := identityOf(o)
	if kind == stream.Deleted {
		delete(l.objects, id)
		return
	}
	i := &item{name: nameOf(o), state: o}
	l.objects[id] = i
	last, isKnown := l.known[i.name]
	i.recreated = isKnown && last != id
	if l.states == nil || i.recreated {
		return
	}
	if i.state, i.err = l.states.stateOf(o); i.err != nil {
		i.err = fmt.Errorf("informer: the transform failed for %s: %w", i.name, i.err)
	}
	i.name = types.NamespacedName{} // it would keep the text of the object in memory
	if m, err := meta.Accessor(i.state); err == nil {
		i.name = nameOf(m)
	}
}

// complete makes the list from what has been collected. It returns an error of the transform.
func (l *list) complete(rv string) error {
	items := slices.SortedFunc(maps.Values(l.objects), func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.name.Namespace, b.name.Namespace), cmp.Compare(a.name.Name, b.name.Name))
	})
	if l.states == nil {
		l.items = l.unstructured(items, rv)
	} else {
		of := &metainternalversion.List{Items: make([]runtime.Object, 0, len(items))}
		of.ResourceVersion = rv
		for _, i := range items {
			switch {
			case i.err != nil:
				return i.err
			case i.recreated:
				l.retained = append(l.retained, i.state.(*unstructured.Unstructured))
			default:
				of.Items = append(of.Items, i)
			}
		}
		states := make(map[identity]any, len(of.Items))
		for id, i := range l.objects {
			if !i.recreated {
				states[id] = i.state
			}
		}
		l.states.replace(states)
		l.items = of
	}
	l.objects, l.known, l.version = nil, nil, rv
	return nil
}

// unstructured returns the list of a ListerWatcher without an informer.
func (l *list) unstructured(items []*item, rv string) *unstructured.UnstructuredList {
	of := &unstructured.UnstructuredList{Items: make([]unstructured.Unstructured, len(items))}
	for n, i := range items {
		of.Items[n] = *i.state.(*unstructured.Unstructured)
	}
	kind := l.resource.GroupVersionKind()
	if kind.Kind == "" && len(items) > 0 {
		kind = of.Items[0].GroupVersionKind()
	}
	of.SetAPIVersion(kind.GroupVersion().String())
	of.SetKind(kind.Kind + "List")
	of.SetResourceVersion(rv)
	return of
}

// identity is a hash of the uid of an object or, if it has none, as objects of client-go's fakes, of its name. The uid
// is a part of the object's text, which it would keep in memory.
type identity [16]byte

func identityOf(o metav1.Object) identity {
	of := string(o.GetUID())
	if of == "" {
		of = nameOf(o).String()
	}
	sum := sha256.Sum256([]byte(of))
	return identity(sum[:])
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
