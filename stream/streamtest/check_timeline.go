package streamtest

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
	"github.com/gvrwatch/gvrwatch/stream"
)

// ref identifies one state of an object.
type ref struct {
	uid types.UID
	rv  string
}

func refOf(o *unstructured.Unstructured) ref { return ref{o.GetUID(), o.GetResourceVersion()} }

// state is what exists at one time.
type state map[types.NamespacedName]ref

// entry is one change as a sequence must deliver it.
type entry struct {
	kind   stream.Type // empty if Selected passes the object neither before nor after
	key    types.NamespacedName
	ref    ref
	exists bool // afterwards, and passes Selected
	object *unstructured.Unstructured
}

func (e *entry) text() string {
	return stream.Event{Type: e.kind, Object: e.object, ResourceVersion: e.ref.rv}.String()
}

func (e *entry) apply(s state) {
	if e.exists {
		s[e.key] = e.ref
	} else {
		delete(s, e.key)
	}
}

// timeline is the past of one epoch, without the changes that its rewind undid. Timelines share the entries of
// their common beginnings.
type timeline []*entry

// past is what really happened in one namespace, or in the whole cluster.
type past struct {
	namespace string
	timelines []timeline          // by epoch
	indexes   []map[changeKey]int // of each timeline
}

func (p *past) in() string {
	if p.namespace == "" {
		return ""
	}
	return " in " + p.namespace
}

// existed reports whether the object had the state in ev in the epoch from or later, or for a DELETED, was removed in
// that state. Of an inferred removal only the identity counts.
func (p *past) existed(from int, ev stream.Event) bool {
	identity := ev.Type == stream.Deleted && ev.Inferred
	for epoch := from; epoch < len(p.timelines); epoch++ {
		key := changeKey{keyOf(ev.Object), refOf(ev.Object), ev.Type != stream.Deleted || identity}
		pos, ok := p.indexes[epoch][key]
		if ok && (identity || sameContent(p.timelines[epoch][pos].object, ev.Object)) {
			return true
		}
	}
	return false
}

// timelines returns one per epoch.
func timelines(h History, namespace string, opts *CheckOptions) []timeline {
	all := make([]timeline, len(h.Rewinds)+1)
	next := 0
	for epoch := range all {
		if epoch > 0 {
			kept := all[epoch-1].position(h.Rewinds[epoch-1].ResourceVersion)
			all[epoch] = append(timeline(nil), all[epoch-1][:kept]...)
		}
		// Whether each object passes Selected. An object with false is not the same as a missing one: if the history
		// begins in the middle, nothing is known of the missing one.
		selected := map[types.NamespacedName]bool{}
		for _, e := range all[epoch] {
			selected[e.key] = e.exists
		}
		for ; next < len(h.Changes) && (h.Changes[next].Epoch <= epoch || epoch == len(h.Rewinds)); next++ {
			c := h.Changes[next]
			if c.Object != nil && c.Type != watch.Error && (namespace == "" || c.Object.GetNamespace() == namespace) {
				all[epoch] = append(all[epoch], newEntry(c, selected, opts))
			}
		}
	}
	return all
}

func newEntry(c Change, selected map[types.NamespacedName]bool, opts *CheckOptions) *entry {
	passes := opts.Selected == nil || opts.Selected(c.Object)
	e := &entry{key: keyOf(c.Object), ref: ref{c.Object.GetUID(), c.ResourceVersion}, object: c.Object,
		exists: passes && c.Type != watch.Deleted}
	was, known := selected[e.key]
	switch {
	case opts.Selected == nil, !known && passes:
		e.kind = stream.Type(c.Type)
	case e.exists && was:
		e.kind = stream.Modified
	case e.exists:
		e.kind = stream.Added
	case was:
		e.kind = stream.Deleted
	}
	if selected[e.key] = e.exists; c.Type == watch.Deleted {
		delete(selected, e.key)
	}
	if opts.Transform != nil {
		e.object = c.Object.DeepCopy()
		opts.Transform(e.object)
	}
	return e
}

// position returns the number of changes up to a version.
func (t timeline) position(rv string) int {
	rev, n := store.ParseVersion(rv), len(t)
	for n > 0 && store.ParseVersion(t[n-1].ref.rv) > rev {
		n--
	}
	return n
}

// changeKey identifies a change of a timeline.
type changeKey struct {
	name   types.NamespacedName
	ref    ref
	exists bool
}

// index returns the position before each change.
func (t timeline) index() map[changeKey]int {
	all := make(map[changeKey]int, len(t))
	for i, e := range t {
		all[changeKey{e.key, e.ref, e.exists}] = i
	}
	return all
}

// presence reports whether an object with that uid existed at any position at or after from, and whether it was absent
// at any.
func (t timeline) presence(from int, key types.NamespacedName, uid types.UID) (present, absent bool) {
	now := false
	for i := 0; i <= len(t); i++ {
		if i >= from {
			present, absent = present || now, absent || !now
		}
		if i < len(t) && t[i].key == key {
			now = t[i].exists && t[i].ref.uid == uid
		}
	}
	return present, absent
}

// ends reports whether the object of e was absent at any position at or after from.
func (t timeline) ends(from int, e *entry) bool {
	_, absent := t.presence(from, e.key, e.ref.uid)
	return absent
}

// states visits the state at each position from..to. The state is valid until visit returns.
func (t timeline) states(from, to int, visit func(pos int, s state)) {
	s := state{}
	for pos := 0; pos <= to; pos++ {
		if pos > 0 {
			t[pos-1].apply(s)
		}
		if pos >= from {
			visit(pos, s)
		}
	}
}

func (t timeline) at(pos int) (at state) {
	t.states(pos, pos, func(_ int, s state) { at = s })
	return at
}

// candidate is a server state that explains the events so far: the first pos changes of an epoch were delivered.
// There are several candidates until epochs differ, or if a SYNCED has no version.
type candidate struct {
	epoch, pos int
	known      state // to the receiver
	// reached is the position after the last delivered change of an object, if that is later than pos.
	reached map[types.NamespacedName]int
}

// deliver makes an event known. A DELETED of another uid than the known one is that of a pending object.
func (cand *candidate) deliver(ev stream.Event) {
	key := keyOf(ev.Object)
	switch {
	case ev.Type != stream.Deleted:
		cand.known[key] = refOf(ev.Object)
	case cand.known[key].uid == ev.Object.GetUID():
		delete(cand.known, key)
	}
}

func keyOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// older reports whether version a precedes b. It is false if either is not a number.
func older(a, b string) bool {
	x, y := store.ParseVersion(a), store.ParseVersion(b)
	return x >= 0 && y >= 0 && x < y
}

func sameContent(a, b *unstructured.Unstructured) bool { return reflect.DeepEqual(a.Object, b.Object) }
