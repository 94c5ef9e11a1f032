package stream

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"
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
func (x *index) endList() []change {
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
func (x *index) put(o *unstructured.Unstructured) []change {
	name, e := nameOf(o), entry{uid: o.GetUID(), version: versionOf(o), list: x.lists}
	known, ok := x.entries[name]
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

// remove takes out an object that the server says is gone.
func (x *index) remove(o *unstructured.Unstructured) []change {
	name := nameOf(o)
	known, ok := x.entries[name]
	if !ok {
		return nil // it has not been told of, or its end has
	}
	delete(x.entries, name)
	if known.uid != o.GetUID() {
		// One after the one that was told has come and gone.
		return []change{{Deleted, known.identity(name)}}
	}
	return []change{{kind: Deleted}}
}

func (e entry) identity(name types.NamespacedName) *identity {
	return &identity{name, e.uid, e.version}
}

func nameOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// noVersion begins what stands in for a resourceVersion.
const noVersion = "#"

// versionOf is the resourceVersion, or where there is none (client-go's fakes)
// a hash of the object.
func versionOf(o *unstructured.Unstructured) string {
	if rv := o.GetResourceVersion(); rv != "" {
		return rv
	}
	h := fnv.New64a()
	_ = json.NewEncoder(h).Encode(o.Object) // a fake's object; a hash never fails to write
	return noVersion + strconv.FormatUint(h.Sum64(), 36)
}

// object is what can be said of the object of a deletion that nobody told.
func (i *identity) object(r gvr.Resource) *unstructured.Unstructured {
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
