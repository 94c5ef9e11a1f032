package index

import (
	"cmp"
	"iter"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// index remembers which objects were delivered and in which version, so that a
// snapshot can be reported as differences. It does not keep the objects. There is one
// entry for each uid. One goroutine may change an index; any may call len and all.
//
// Its iterators look and change when they are ranged over, not when they are
// made, and step by step, each step right before what it means is yielded: if the
// caller leaves the loop, what was not yielded has not been entered. They must be ranged
// over even where they yield nothing.
type Index struct {
	mu       sync.Mutex // never held while yielding
	table    table
	OnChange func(e Entry, gone bool) // is called for each entry that is new, has changed or is gone; may be nil
}

// identity says which object, in which version.
type Entry struct {
	types.NamespacedName
	UID     types.UID // empty on client-go's fakes
	Version string    // empty for a pending entry
}

func (i Entry) Pending() bool { return i.Version == "" }

// change is what an object means to somebody who knows what was delivered.
type Change struct {
	Kind watch.EventType
	Gone *Entry // set for a DELETED that has no object of its own
	Left *Entry // set for a DELETED of one that exists, and is no longer selected
	// maybe: an ADDED of a pending entry, which the receiver may know.
	Pending bool
}

func named(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func New() *Index { return &Index{table: newTable()} }

func (x *Index) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.len()
}

// get returns the entry of an object. Where either has no uid the name decides.
func (x *Index) get(o Entry) (was Entry, stale, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.get(o.NamespacedName, o.UID)
}

func (x *Index) Has(o Entry) bool {
	_, _, ok := x.get(o)
	return ok
}

// hasBytes says whether any object of a name is known. A nil index knows nothing.
func (x *Index) HasName(namespace, name []byte) bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.hasName(namespace, name)
}

// saw says whether the list that was begun last has had an object of that name.
func (x *Index) Saw(name types.NamespacedName) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.saw(name)
}

// enter makes an object known, and seen.
func (x *Index) Enter(i Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.set(i, true)
}

func (x *Index) forget(i Entry) {
	x.mu.Lock()
	x.table.delete(i.NamespacedName, i.UID)
	x.mu.Unlock()
	if x.OnChange != nil {
		x.OnChange(i, true)
	}
}

// all yields what is known at the time when it is ranged over, in any order.
func (x *Index) All() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		for _, i := range x.collect(func(bool) bool { return true }) {
			if !yield(i) {
				return
			}
		}
	}
}

func (x *Index) collect(want func(seen bool) bool) []Entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	var found []Entry
	for i, seen := range x.table.all() {
		if want(seen) {
			found = append(found, i)
		}
	}
	return found
}

// beginList makes every object unseen. A list that was broken off leaves no trace.
func (x *Index) BeginList() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.unsee()
}

// distrust is for a server that has gone back in time: it may use a version again,
// for something else. The next list that is read to its end reports everything.
func (x *Index) Distrust() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.distrust()
}

// endList removes what the list did not have, in the order of names.
func (x *Index) EndList() iter.Seq[Change] {
	return func(yield func(Change) bool) {
		gone := x.collect(func(seen bool) bool { return !seen })
		slices.SortFunc(gone, func(a, b Entry) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
		})
		for i := range gone {
			x.forget(gone[i])
			if !yield(Change{Kind: watch.Deleted, Gone: &gone[i]}) {
				return
			}
		}
	}
}

// evidence is what a list or a watch says of an object.
type Evidence int

const (
	Listed   Evidence = iota // it exists now
	Happened                 // it has changed
	Replayed                 // it had changed, which may have been delivered
)

// put enters an object that exists and yields what that changes.
func (x *Index) Put(now Entry, selected bool, from Evidence) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		was, stale, ok := x.get(now)
		if ok && from != Listed && !was.Pending() && protocol.NotAfter(now.Version, was.Version) {
			return // delivered before, or acked ahead of what the watch goes on from
		}
		if from == Replayed && (!ok || was.Pending()) {
			return // whether its end has been delivered can't be known; a pending one came later
		}
		if (!ok || was.Pending() || from == Listed) && !x.replace(now, from, yield) {
			return
		}
		switch {
		case !selected && (!ok || was.Pending() && from != Listed):
		case !selected:
			x.forget(was)
			yield(Change{Kind: watch.Deleted, Left: &was})
		default:
			now.UID = cmp.Or(now.UID, was.UID)
			x.update(was, now, ok, stale)
			switch {
			case !ok || was.Pending():
				yield(Change{Kind: watch.Added, Pending: ok})
			case stale || was.Version != now.Version:
				yield(Change{Kind: watch.Modified})
			}
		}
	}
}

// renew enters what is new of an object, which was known before or not.
func (x *Index) update(was, now Entry, known, stale bool) {
	if known && was.UID != now.UID {
		x.forget(was)
	}
	x.Enter(now)
	if x.OnChange != nil && (!known || stale || was != now) {
		x.OnChange(now, false)
	}
}

// replace removes other objects of the same name, whose end nobody has reported: all
// of them where a list has this one, and those that a watch had passed. A pending one
// is newer than where the watch goes on from, which will report its end.
func (x *Index) replace(now Entry, from Evidence, yield func(Change) bool) bool {
	return x.endOthers(now, func(other Entry) bool {
		return from == Listed || !other.Pending() && !protocol.NotAfter(now.Version, other.Version)
	}, yield)
}

// endOthers removes objects of a name that have another uid, and have ended.
func (x *Index) endOthers(of Entry, ended func(other Entry) bool, yield func(Change) bool) bool {
	x.mu.Lock()
	others := x.table.others(of.NamespacedName, of.UID)
	x.mu.Unlock()
	for i := range others {
		if !ended(others[i]) {
			continue
		}
		x.forget(others[i])
		if !yield(Change{Kind: watch.Deleted, Gone: &others[i]}) {
			return false
		}
	}
	return true
}

// remove takes out an object that the server says is gone. An event that is older
// than what is known is a replay. (Servers exist whose last event of an object bears
// the version of the one before.)
func (x *Index) Remove(o Entry, from Evidence) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		was, _, ok := x.get(o)
		switch {
		case ok && was.Pending(), ok && protocol.Before(o.Version, was.Version):
		case ok && from == Replayed && !protocol.NotAfter(was.Version, o.Version):
		case ok:
			x.forget(was)
			yield(Change{Kind: watch.Deleted})
		case from == Happened:
			// Objects of the name of one that has come and gone after them. Where versions
			// can't be compared it may be the replay of an earlier one's end, and a
			// deletion must not be invented.
			x.endOthers(o, func(other Entry) bool {
				return !other.Pending() && protocol.NotAfter(other.Version, o.Version)
			}, yield)
		}
	}
}
