package stream

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// index remembers which objects were told and in what version, so that a list
// can be told as differences. It does not keep the objects.
type index struct {
	entries map[types.NamespacedName]entry
	lists   uint32 // lists begun
}

type entry struct {
	uid     types.UID // empty on client-go's fakes
	version string
	list    uint32 // the newest list that had it
	hidden bool
}

// change is what an object means to somebody who knows what the index knows.
type change struct {
	kind Type
	gone *identity // set for a DELETED that has no object of its own
}

// identity is all that is known of an object that is gone.
type identity struct {
	types.NamespacedName
	uid     types.UID
	version string
}

func newIndex() *index { return &index{entries: map[types.NamespacedName]entry{}} }

// beginList makes every object unseen. A list that was broken off leaves no trace.
func (x *index) beginList() { x.lists++ }

// endList removes what the list did not have, in the order of names.
type known struct {
	identity
	hidden bool
}

func (x *index) len() int { return len(x.entries) }
func (x *index) has(n types.NamespacedName) bool { _, ok := x.entries[n]; return ok }
func (x *index) all() iter.Seq[known] {
	return func(yield func(known) bool) {
		for n, e := range x.entries {
			if !yield(known{*e.identity(n), e.hidden}) {
				return
			}
		}
	}
}
func (x *index) enter(k known) {
	x.entries[k.NamespacedName] = entry{uid: k.uid, version: k.version, hidden: k.hidden}
}
func (x *index) put(o object, selected bool) iter.Seq[change]    { return slices.Values(x.put_(o)) }
func (x *index) putOld(o object, selected bool) iter.Seq[change] { return slices.Values(x.putOld_(o)) }
func (x *index) remove(o object) iter.Seq[change]                { return slices.Values(x.remove_(o)) }
func (x *index) removeOld(o object) iter.Seq[change]             { return slices.Values(x.removeOld_(o)) }
func (x *index) endList() iter.Seq[change]                       { return slices.Values(x.endList_()) }

func (x *index) endList_() []change {
	var gone []change
	for name, e := range x.entries {
		if e.list != x.lists {
			gone = append(gone, change{Deleted, e.identity(name)})
		}
	}
	slices.SortFunc(gone, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.gone.Namespace, b.gone.Namespace), cmp.Compare(a.gone.Name, b.gone.Name))
	})
	for _, c := range gone {
		delete(x.entries, c.gone.NamespacedName)
	}
	return gone
}

// put enters an object that exists and returns what that changes.
func (x *index) put_(o object) []change {
	name := o.name()
	e := entry{uid: o.GetUID(), version: o.version, list: x.lists}
	known, ok := x.entries[name]
	if ok && e.uid == "" {
		e.uid = known.uid // what does not say who it is is no proof of another one
	}
	if known.uid == "" {
		known.uid = e.uid // nor is what did not say
	}
	x.entries[name] = e
	switch {
	case !ok:
		return []change{{kind: Added}}
	case known.uid != e.uid:
		return []change{{Deleted, known.identity(name)}, {kind: Added}}
	case known.version != e.version:
		return []change{{kind: Modified}}
	}
	return nil
}

// putOld enters an object from an event that may be a replay: only what is newer
// than the version that was told is news. Of an object that is not known it can't
// be told whether its end has been told.
func (x *index) putOld_(o object) []change {
	known, ok := x.entries[o.name()]
	if !ok || known.uid != o.GetUID() || notAfter(o.version, known.version) {
		return nil
	}
	return x.put_(o)
}

// remove takes out an object that the server says is gone.
func (x *index) remove_(o object) []change {
	name := o.name()
	known, ok := x.entries[name]
	switch {
	case !ok:
		return nil // it has not been told of, or its end has
	case known.uid == o.GetUID() || known.uid == "" || o.GetUID() == "":
		delete(x.entries, name)
		return []change{{kind: Deleted}}
	case notAfter(known.version, o.version):
		// A later one of that name has come and gone, so this one is gone as well.
		// (Where versions can't be compared it may be the replay of an earlier one's
		// end, and a deletion must not be invented.)
		delete(x.entries, name)
		return []change{{Deleted, known.identity(name)}}
	}
	return nil
}

// removeOld takes out an object from an event that may be a replay: one of an
// earlier version than was told is. (Servers exist whose last event of an object
// bears the version of the one before.)
func (x *index) removeOld_(o object) []change {
	known, ok := x.entries[o.name()]
	if !ok || known.uid != o.GetUID() || !notAfter(known.version, o.version) {
		return nil
	}
	return x.remove_(o)
}

func (e entry) identity(name types.NamespacedName) *identity {
	return &identity{name, e.uid, e.version}
}

// unstructured is what can be said of the object of a deletion that nobody told.
func (i *identity) unstructured(r gvr.Resource) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(r.GroupVersionKind())
	o.SetNamespace(i.Namespace)
	o.SetName(i.Name)
	o.SetUID(i.uid)
	if !strings.HasPrefix(i.version, noVersion) {
		o.SetResourceVersion(i.version)
	}
	return o
}
