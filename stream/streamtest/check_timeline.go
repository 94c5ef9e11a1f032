package streamtest

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/stream"
)

// ref is one state of an object, as far as an index can tell it from others.
type ref struct {
	uid types.UID
	rv  string
}

type state map[types.NamespacedName]ref

// entry is one change as a sequence has to tell it.
type entry struct {
	kind   stream.Type // empty where the change is none, because of Selected
	key    types.NamespacedName
	ref    ref
	exists bool // afterwards, and is selected
	object *unstructured.Unstructured
}

func (e *entry) text() string {
	return Text(stream.Event{Type: e.kind, Object: e.object, ResourceVersion: e.ref.rv})
}

// timeline is what had happened, seen from one epoch: what its rewind had undone
// is not in it. Two timelines share their beginnings.
type timeline []*entry

// timelines has one for each epoch.
func timelines(h History, namespace string, opts *CheckOptions) []timeline {
	tls := make([]timeline, len(h.Rewinds)+1)
	next := 0
	for epoch := range tls {
		if epoch > 0 {
			tls[epoch] = tls[epoch-1][:tls[epoch-1].undoneFrom(h.Rewinds[epoch-1].To)].clone()
		}
		seen := tls[epoch].objects()
		for ; next < len(h.Changes) && (h.Changes[next].Epoch <= epoch || epoch == len(tls)-1); next++ {
			if e := newEntry(h.Changes[next], namespace, seen, opts); e != nil {
				tls[epoch] = append(tls[epoch], e)
			}
		}
	}
	return tls
}

func newEntry(c Change, namespace string, seen map[types.NamespacedName]bool, opts *CheckOptions) *entry {
	switch c.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return nil
	}
	if c.Object == nil || namespace != "" && c.Object.GetNamespace() != namespace {
		return nil
	}
	e := &entry{key: keyOf(c.Object), ref: ref{uid: c.Object.GetUID(), rv: c.ResourceVersion}, object: c.Object}
	if e.ref.rv == "" {
		e.ref.rv = c.Object.GetResourceVersion()
	}
	selected := opts.selected(c.Object)
	e.exists = selected && c.Type != watch.Deleted
	was, known := seen[e.key]
	switch {
	case opts.Selected == nil, !known && selected:
		e.kind = stream.Type(c.Type)
	case e.exists && was:
		e.kind = stream.Modified
	case e.exists:
		e.kind = stream.Added
	case was:
		e.kind = stream.Deleted
	}
	if seen[e.key] = e.exists; c.Type == watch.Deleted {
		delete(seen, e.key)
	}
	if opts.Transform != nil {
		e.object = c.Object.DeepCopy()
		opts.Transform(e.object)
	}
	return e
}

func (t timeline) clone() timeline { return append(timeline(nil), t...) }

// objects says of each object there is whether it is selected.
func (t timeline) objects() map[types.NamespacedName]bool {
	seen := map[types.NamespacedName]bool{}
	for _, e := range t {
		// One that is not selected counts as known, which differs from a new one only
		// where a history begins in the middle.
		seen[e.key] = e.exists
	}
	return seen
}

// undoneFrom is the position of the first change after rv.
func (t timeline) undoneFrom(rv string) int {
	if p, ok := t.position(rv); ok {
		return p
	}
	return 0
}

// position is the number of changes up to rv. It is not known for an empty
// version, or one that neither is a number nor that of a change.
func (t timeline) position(rv string) (int, bool) {
	if rv == "" {
		return 0, false
	}
	for i := len(t) - 1; i >= 0; i-- {
		if t[i].ref.rv == rv {
			return i + 1, true
		}
	}
	if rv == "0" {
		return 0, true
	}
	if _, ok := compare(rv, rv); !ok {
		return 0, false
	}
	for i := len(t) - 1; i >= 0; i-- {
		if c, ok := compare(t[i].ref.rv, rv); !ok {
			return 0, false
		} else if c <= 0 {
			return i + 1, true
		}
	}
	return 0, true
}

// states visits the state at each position from..to, to be read only until
// visit returns.
func (t timeline) states(from, to int, visit func(pos int, s state)) {
	s := state{}
	for pos := 0; pos <= min(to, len(t)); pos++ {
		if pos > 0 {
			t[pos-1].apply(s)
		}
		if pos >= from {
			visit(pos, s)
		}
	}
}

func (t timeline) at(pos int) state {
	s := state{}
	for _, e := range t[:pos] {
		e.apply(s)
	}
	return s
}

func (e *entry) apply(s state) {
	if e.exists {
		s[e.key] = e.ref
	} else {
		delete(s, e.key)
	}
}

// lives says whether ever, at or after from, an object with that uid existed, and
// whether ever it did not.
func (t timeline) lives(from int, key types.NamespacedName, uid types.UID) (ever, notEver bool) {
	now := false
	for i := 0; i <= len(t); i++ {
		if i >= from {
			ever, notEver = ever || now, notEver || !now
		}
		if i < len(t) && t[i].key == key {
			now = t[i].exists && t[i].ref.uid == uid
		}
	}
	return ever, notEver
}

func (s state) equal(other state) bool { return maps.Equal(s, other) }

func keyOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// compare compares two versions that are numbers.
func compare(a, b string) (int, bool) {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return c, err == nil
}

// older says that a is known to be before b.
func older(a, b string) bool {
	c, ok := compare(a, b)
	return ok && c < 0
}

// sameContent compares as JSON does, for which 1 and 1.0 are one.
func sameContent(a, b *unstructured.Unstructured) bool {
	if a == nil || b == nil {
		return a == b
	}
	if reflect.DeepEqual(a.Object, b.Object) {
		return true
	}
	x, errX := json.Marshal(a.Object)
	y, errY := json.Marshal(b.Object)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
