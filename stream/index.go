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
)

// index remembers which objects were told and in what version, so that a
// snapshot can be told as differences. It does not keep the objects.
//
// Its iterators look and change when they are ranged over, not when they are
// made, and step by step, each step right before what it means is yielded: if the
// consumer leaves, what was not yielded has not been entered. They must be ranged
// over also for what they yield nothing of. One goroutine may change an index;
// any may ask for len and all meanwhile.
type index struct {
	mu      sync.Mutex // never held while yielding
	table   table
	ghosts  ghosts
	doubts  doubts
	listing bool                    // a list was begun, and has not ended
	noted   func(checkpoint.Change) // is told of what changes, if anybody is
}

// known is what the index knows of an object.
type known struct {
	identity
	hidden bool // it exists, but was not told: Options.Select does not want it
}

// identity says which object, in which version.
type identity struct {
	types.NamespacedName
	uid     types.UID // empty on client-go's fakes
	version string
}

// change is what an object means to somebody who knows what was told.
type change struct {
	kind Type
	gone *identity // set for a DELETED that has no object of its own
	left *identity // set for a DELETED of one that exists, and is no longer wanted
	// unsure: an ADDED or DELETED of a ghost, that the receiver may know, or not.
	unsure bool
}

func newIndex() *index { return &index{table: newTable()} }

func (x *index) len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.len()
}

func (x *index) get(name types.NamespacedName) (known, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.get(name)
}

// getLike is get for an object that probably has this uid, which then need not be
// made anew.
func (x *index) getLike(name types.NamespacedName, uid types.UID) (known, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.getLike(name, uid)
}

func (x *index) has(name types.NamespacedName) bool {
	_, ok := x.get(name)
	return ok
}

// saw says whether the list that was begun last has had an object.
func (x *index) saw(name types.NamespacedName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.saw(name)
}

// enter makes an object known, and seen.
func (x *index) enter(k known) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.set(k, true)
}

func (x *index) forget(name types.NamespacedName) {
	x.mu.Lock()
	was, _ := x.table.get(name)
	x.table.delete(name)
	x.mu.Unlock()
	x.note(checkpoint.Change{Gone: true, Object: checkpoint.Object{Namespace: name.Namespace, Name: name.Name, UID: was.uid}})
}

func (x *index) note(c checkpoint.Change) {
	if x.noted != nil {
		x.noted(c)
	}
}

// all yields what is known at the time when it is ranged over, in any order.
func (x *index) all() iter.Seq[known] {
	return func(yield func(known) bool) {
		for _, k := range x.collect(func(bool) bool { return true }) {
			if !yield(k) {
				return
			}
		}
	}
}

func (x *index) collect(want func(seen bool) bool) []known {
	x.mu.Lock()
	defer x.mu.Unlock()
	var found []known
	for k, seen := range x.table.all() {
		if want(seen) {
			found = append(found, k)
		}
	}
	return found
}

// beginList makes every object unseen. A list that was broken off leaves no trace.
func (x *index) beginList() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.listing = true
	x.table.unsee()
}

// see makes an object seen by the list that was begun, if it is known.
func (x *index) see(name types.NamespacedName) {
	if k, ok := x.get(name); ok {
		x.enter(k)
	}
}

// endList removes what the list did not have, in the order of names, but for the
// namespaces that are spared, of which it says nothing.
func (x *index) endList(spared func(namespace string) bool) iter.Seq[change] {
	return func(yield func(change) bool) {
		gone := x.collect(func(seen bool) bool { return !seen })
		if spared != nil {
			gone = slices.DeleteFunc(gone, func(k known) bool { return spared(k.Namespace) })
		}
		slices.SortFunc(gone, func(a, b known) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		for i := range gone {
			x.forget(gone[i].NamespacedName)
			if !gone[i].hidden {
				x.forgo(gone[i].identity)
			}
			if !gone[i].hidden && !yield(change{kind: Deleted, gone: &gone[i].identity}) {
				return
			}
		}
		x.listing, x.doubts = false, nil
		x.buryAll(spared)(yield)
	}
}

// put enters an object that exists and yields what that changes.
func (x *index) put(o object, selected bool) iter.Seq[change] {
	return func(yield func(change) bool) {
		now := known{o.identity, !selected}
		was, ok := x.getLike(now.NamespacedName, now.uid)
		if ok && differ(was.uid, now.uid) {
			x.forget(was.NamespacedName)
			if !was.hidden && !yield(change{kind: Deleted, gone: &was.identity}) {
				return
			}
			ok = false
		}
		if ok && now.uid == "" {
			now.uid = was.uid
		}
		x.enter(now)
		doubted := x.confirm(now.NamespacedName)
		if !ok || was != now || doubted {
			x.note(checkpoint.Change{Object: now.object()})
		}
		ghost := x.lay(now.NamespacedName, now.uid, now.version)
		switch told := ok && !was.hidden; {
		case !told && !selected && ghost != nil:
			yield(change{kind: Deleted, left: ghost, unsure: true})
		case !told && selected:
			yield(change{kind: Added, unsure: ghost != nil})
		case told && !selected:
			yield(change{kind: Deleted, left: &was.identity})
		case told && (was.version != now.version || doubted || ghost != nil && ghost.version != now.version):
			yield(change{kind: Modified})
		}
	}
}

// putOld enters an object from an event that may be a replay: only what is newer
// than the version that is known is news. Of an object that is not known it can't
// be told whether its end has been told.
func (x *index) putOld(o object, selected bool) iter.Seq[change] {
	return func(yield func(change) bool) {
		if was, ok := x.get(o.name()); ok && was.uid == o.uid && !notAfter(o.version, was.version) {
			x.put(o, selected)(yield)
		}
	}
}

// remove takes out an object that the server says is gone.
func (x *index) remove(o object) iter.Seq[change] {
	return func(yield func(change) bool) {
		was, ok := x.get(o.name())
		c := change{kind: Deleted}
		told := ok && !was.hidden && was.uid == o.uid
		if x.lay(o.name(), o.uid, o.version) != nil && !told && !yield(change{kind: Deleted, unsure: true}) {
			return
		}
		if !ok {
			return // it has not been told of, or its end has
		}
		if differ(was.uid, o.uid) {
			// If it is a later one of that name that has come and gone, then this one is
			// gone as well. Where versions can't be compared it may be the replay of an
			// earlier one's end, and a deletion must not be invented.
			if !notAfter(was.version, o.version) {
				return
			}
			c.gone = &was.identity
		}
		x.forget(was.NamespacedName)
		if !was.hidden {
			yield(c)
		}
	}
}

// removeOld takes out an object from an event that may be a replay: one of an
// earlier version than is known is. (Servers exist whose last event of an object
// bears the version of the one before.)
func (x *index) removeOld(o object) iter.Seq[change] {
	return func(yield func(change) bool) {
		if was, ok := x.get(o.name()); ok && was.uid == o.uid && notAfter(was.version, o.version) {
			x.remove(o)(yield)
		}
	}
}

// differ says whether the uids are those of two objects. What does not say who it
// is is no proof of another one.
func differ(a, b types.UID) bool { return a != "" && b != "" && a != b }

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
