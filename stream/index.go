package stream

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/acks"
)

// index remembers which objects were delivered and in what version, so that a
// snapshot can be reported as differences. It does not keep the objects. There is one
// entry for each uid. An entry without a version is pending: an earlier run may have
// delivered the object, and nobody acked it. A watch goes on from before that, so what
// it sends of a pending object means nothing until the ADDED that was delivered.
//
// Its iterators look and change when they are ranged over, not when they are
// made, and step by step, each step right before what it means is yielded: if the
// consumer leaves, what was not yielded has not been entered. They must be ranged
// over also for what they yield nothing of. One goroutine may change an index;
// any may ask for len and all meanwhile.
type index struct {
	mu    sync.Mutex // never held while yielding
	table table
	noted func(acks.Change) // receives what changes; nil if nobody does
}

// identity says which object, in which version.
type identity struct {
	types.NamespacedName
	uid     types.UID // empty on client-go's fakes
	version string    // empty for a pending entry
}

func (i identity) pending() bool { return i.version == "" }

func (i identity) object() checkpoint.Object {
	return checkpoint.Object{Namespace: i.Namespace, Name: i.Name, UID: i.uid, ResourceVersion: i.version}
}

// change is what an object means to somebody who knows what was delivered.
type change struct {
	kind Type
	gone *identity // set for a DELETED that has no object of its own
	left *identity // set for a DELETED of one that exists, and is no longer selected
	// maybe: an ADDED of a pending entry, which the receiver may know.
	maybe bool
}

func newIndex() *index { return &index{table: newTable()} }

func (x *index) len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.len()
}

// get returns the entry of an object. Where either has no uid the name decides.
func (x *index) get(o identity) (was identity, stale, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.get(o.NamespacedName, o.uid)
}

func (x *index) has(o identity) bool {
	_, _, ok := x.get(o)
	return ok
}

// hasBytes says whether any object of a name is known. A nil index knows nothing.
func (x *index) hasBytes(namespace, name []byte) bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.hasBytes(namespace, name)
}

// saw says whether the list that was begun last has had an object of that name.
func (x *index) saw(name types.NamespacedName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.saw(name)
}

// enter makes an object known, and seen.
func (x *index) enter(i identity) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.set(i, true)
}

func (x *index) forget(i identity) {
	x.mu.Lock()
	x.table.delete(i.NamespacedName, i.uid)
	x.mu.Unlock()
	if x.noted != nil {
		x.noted(acks.Change{Object: i.object(), Gone: true})
	}
}

// all yields what is known at the time when it is ranged over, in any order.
func (x *index) all() iter.Seq[identity] {
	return func(yield func(identity) bool) {
		for _, i := range x.collect(func(bool) bool { return true }) {
			if !yield(i) {
				return
			}
		}
	}
}

func (x *index) collect(want func(seen bool) bool) []identity {
	x.mu.Lock()
	defer x.mu.Unlock()
	var found []identity
	for i, seen := range x.table.all() {
		if want(seen) {
			found = append(found, i)
		}
	}
	return found
}

// beginList makes every object unseen. A list that was broken off leaves no trace.
func (x *index) beginList() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.unsee()
}

// distrust is for a server that has gone back in time: it may use a version again,
// for something else. The next list that is read to its end reports everything.
func (x *index) distrust() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.distrust()
}

// endList removes what the list did not have, in the order of names.
func (x *index) endList() iter.Seq[change] {
	return func(yield func(change) bool) {
		gone := x.collect(func(seen bool) bool { return !seen })
		slices.SortFunc(gone, func(a, b identity) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.uid, b.uid))
		})
		for i := range gone {
			x.forget(gone[i])
			if !yield(change{kind: Deleted, gone: &gone[i]}) {
				return
			}
		}
	}
}

// evidence is what a list or a watch says of an object.
type evidence int

const (
	listed   evidence = iota // it exists now
	happened                 // it has changed
	replayed                 // it had changed, which may have been delivered
)

// put enters an object that exists and yields what that changes.
func (x *index) put(o object, selected bool, from evidence) iter.Seq[change] {
	return func(yield func(change) bool) {
		now := o.identity
		was, stale, ok := x.get(now)
		if ok && from != listed && !was.pending() && notAfter(now.version, was.version) {
			return // delivered before, or acked ahead of what the watch goes on from
		}
		if from == replayed && (!ok || was.pending()) {
			return // whether its end has been delivered can't be known; a pending one came later
		}
		if (!ok || was.pending() || from == listed) && !x.replace(now, from, yield) {
			return
		}
		switch {
		case !selected && (!ok || was.pending() && from != listed):
		case !selected:
			x.forget(was)
			yield(change{kind: Deleted, left: &was})
		default:
			now.uid = cmp.Or(now.uid, was.uid)
			x.renew(was, now, ok, stale)
			switch {
			case !ok || was.pending():
				yield(change{kind: Added, maybe: ok})
			case stale || was.version != now.version:
				yield(change{kind: Modified})
			}
		}
	}
}

// renew enters what is new of an object, which was known before or not.
func (x *index) renew(was, now identity, known, stale bool) {
	if known && was.uid != now.uid {
		x.forget(was)
	}
	x.enter(now)
	if x.noted != nil && (!known || stale || was != now) {
		x.noted(acks.Change{Object: now.object()})
	}
}

// replace removes other objects of the same name, whose end nobody has reported: all
// of them where a list has this one, and those that a watch had passed. A pending one
// is newer than where the watch goes on from, which will report its end.
func (x *index) replace(now identity, from evidence, yield func(change) bool) bool {
	return x.endOthers(now, func(other identity) bool {
		return from == listed || !other.pending() && !notAfter(now.version, other.version)
	}, yield)
}

// endOthers removes objects of a name that have another uid, and have ended.
func (x *index) endOthers(of identity, ended func(other identity) bool, yield func(change) bool) bool {
	x.mu.Lock()
	others := x.table.others(of.NamespacedName, of.uid)
	x.mu.Unlock()
	for i := range others {
		if !ended(others[i]) {
			continue
		}
		x.forget(others[i])
		if !yield(change{kind: Deleted, gone: &others[i]}) {
			return false
		}
	}
	return true
}

// remove takes out an object that the server says is gone. An event that is older
// than what is known is a replay. (Servers exist whose last event of an object bears
// the version of the one before.)
func (x *index) remove(o object, from evidence) iter.Seq[change] {
	return func(yield func(change) bool) {
		was, _, ok := x.get(o.identity)
		switch {
		case ok && was.pending(), ok && before(o.version, was.version):
		case ok && from == replayed && !notAfter(was.version, o.version):
		case ok:
			x.forget(was)
			yield(change{kind: Deleted})
		case from == happened:
			// Objects of the name of one that has come and gone after them. Where versions
			// can't be compared it may be the replay of an earlier one's end, and a
			// deletion must not be invented.
			x.endOthers(o.identity, func(other identity) bool {
				return !other.pending() && notAfter(other.version, o.version)
			}, yield)
		}
	}
}

// unstructured is what can be said of the object of a deletion that was inferred.
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
