package index

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// Index remembers which objects were delivered, and in which version. One goroutine may change an Index; any may call
// Len, All, Knows, Has, HasName and Saw.
//
// Put, Remove and EndList call deliver for each Change, right after it has entered the Index. If deliver returns an
// error, they return that error and do not make the rest of the changes, which are found again the next time. A nil
// deliver receives nothing.
//
// Put and Remove return a [*Contradiction] if an event can't be true together with what the Index knows. A list shows
// then what is. What the event says of its own object is delivered before, unless that can't be decided without a list.
type Index struct {
	mu      sync.Mutex // not held while deliver or changed is called
	table   table
	changed func(e objects.Version, gone bool) // may be nil
	// shared: a list had several objects of one name (a server of several clusters). So only a list or its own DELETED
	// shows that an object is gone.
	shared bool
	coming func(objects.ID) bool // see Coming
}

// pending reports whether the object may have been delivered, but was never acked. A pending entry has no version.
func pending(e objects.Version) bool { return e.ResourceVersion == "" }

// Change is an event that follows from what the Index knows.
type Change struct {
	Kind watch.EventType
	Gone *objects.Version // set only for a DELETED for which the server has sent no object
	Left *objects.Version // set only for a DELETED of an object that exists and is no longer selected
	// Doubtful is set only if a Contradiction is returned after this.
	Doubtful bool
	// Pending is set only for an ADDED whose entry was pending: the caller may know the object.
	Pending bool
}

func named(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// New returns an empty Index. If changed is not nil, the Index calls it for each entry that is new, has changed or is
// gone, but not for those of Enter.
func New(changed func(e objects.Version, gone bool)) *Index {
	return &Index{table: newTable(usualLimits), changed: changed}
}

// Len returns the number of entries.
func (x *Index) Len() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.len
}

// get returns the entry of an object. If either has no uid, the name decides. A stale entry is from before Distrust.
func (x *Index) get(id objects.ID) (was objects.Version, stale, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := x.table.key(id.NamespacedName())
	return x.table.of(name.hash).get(name, id.UID)
}

// Knows reports whether an object was delivered, in a version that is not older than now. older reports whether it was
// delivered in one that is newer.
func (x *Index) Knows(now objects.Version) (known, older bool) {
	was, _, ok := x.get(now.ID)
	older = ok && protocol.Before(now.ResourceVersion, was.ResourceVersion)
	return ok && (older || was.ResourceVersion == now.ResourceVersion), older
}

// Has reports whether the Index has an entry for an object.
func (x *Index) Has(id objects.ID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := x.table.key(id.NamespacedName())
	return x.table.of(name.hash).has(name, id.UID)
}

// HasName reports whether the Index has an entry for any object of a name.
func (x *Index) HasName(namespace, name []byte) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	hash := x.table.spaces.hashOf(namespace, name)
	return x.table.of(hash).hasName(hash, namespace, name)
}

// Saw reports whether an object was entered since BeginList.
func (x *Index) Saw(id objects.ID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := x.table.key(id.NamespacedName())
	return x.table.of(name.hash).saw(name, id.UID)
}

// Enter sets the entry of an object, without a Change. It counts as seen by the current list.
func (x *Index) Enter(e objects.Version) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.set(e)
}

func (x *Index) forget(e objects.Version) {
	x.mu.Lock()
	x.table.delete(e.ID)
	x.mu.Unlock()
	if x.changed != nil {
		x.changed(e, true)
	}
}

// All returns a copy of the entries, in any order.
func (x *Index) All() []objects.Version {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]objects.Version, 0, x.table.len)
	x.table.each(func(s *shard) {
		for e := range s.all() {
			all = append(all, e)
		}
	})
	return all
}

// Entry is an entry with what is known of it.
type Entry struct {
	objects.Version      // embedded: an Entry is the last version of an object
	Seen            bool // since BeginList
	Stale           bool // from before Distrust
}

// Entries returns a copy of the entries, in the order of names and uids. It is for package explore.
func (x *Index) Entries() []Entry {
	var all []Entry
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.each(func(s *shard) {
		for e, seen := range s.all() {
			_, stale, _ := s.get(x.table.key(e.NamespacedName()), e.UID)
			all = append(all, Entry{e, seen, stale})
		}
	})
	slices.SortFunc(all, func(a, b Entry) int { return a.Compare(b.ID) })
	return all
}

// BeginList begins a list: no object counts as seen. What an earlier list that broke off has seen does not count.
func (x *Index) BeginList() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.each((*shard).unsee)
}

// Coming says which objects the list still has, as far as that is known. Without that, a new object that takes the name
// of another one shows that the other is gone.
func (x *Index) Coming(is func(objects.ID) bool) { x.coming = is }

// Distrust makes every entry stale, because the server has gone back in time and may use a version again for another
// state. Each object that is listed is then reported once, even if its version is the same.
func (x *Index) Distrust() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.table.each((*shard).distrust)
}

// Deliver is called with a change. An error ends the call that led to it.
type Deliver func(Change) error

func (d Deliver) call(c Change) error {
	if d == nil {
		return nil
	}
	return d(c)
}

// EndList ends a list: it delivers a DELETED for each object that the list did not have. It copies a few thousand of
// them at a time, and delivers each of these parts in the order of names, so that the order of the objects of a small
// Index is always the same.
func (x *Index) EndList(deliver Deliver) (err error) {
	x.table.each(func(s *shard) {
		if err == nil {
			err = x.end(x.unseen(s), deliver)
		}
	})
	return err
}

// unseen returns the entries of a shard that were not seen since BeginList, in the order of names.
func (x *Index) unseen(s *shard) []objects.Version {
	x.mu.Lock()
	defer x.mu.Unlock()
	var gone []objects.Version
	for e, seen := range s.all() {
		if !seen {
			gone = append(gone, e)
		}
	}
	slices.SortFunc(gone, func(a, b objects.Version) int { return a.Compare(b.ID) })
	return gone
}

// end removes objects and delivers their DELETED.
func (x *Index) end(gone []objects.Version, deliver Deliver) error {
	for i := range gone {
		x.forget(gone[i])
		if err := deliver.call(Change{Kind: watch.Deleted, Gone: &gone[i]}); err != nil {
			return err
		}
	}
	return nil
}

// Evidence is what is known about an object from a list or a watch.
type Evidence int

const (
	Listed      Evidence = iota // the object exists now
	Only                        // the same, and no other of its name does: client-go's fake says so with each event
	ListedAgain                 // the object existed when a page was read, and may have been on an earlier one
	Appeared                    // the object is new
	Happened                    // the object has changed
	Replayed                    // the object changed in the past, and that should have been delivered
)

// isEvent reports whether the evidence is an event of a watch.
func (e Evidence) isEvent() bool { return e >= ListedAgain }

// Contradiction is an event that can't be true together with what the Index knows, if the server keeps the rules about
// versions.
type Contradiction struct {
	Object objects.ID
	Why    string
}

func (c *Contradiction) Error() string {
	return fmt.Sprintf("the server's resourceVersions do not grow, or it skips events: %s: %s",
		c.Object.NamespacedName(), c.Why)
}

// Put enters an object that exists, and delivers the changes.
func (x *Index) Put(now objects.Version, selected bool, from Evidence, deliver Deliver) error {
	if selected && (from == Happened || from == ListedAgain) && x.renew(now) {
		if x.changed != nil {
			x.changed(now, false)
		}
		return deliver.call(Change{Kind: watch.Modified})
	}
	was, stale, ok := x.get(now.ID)
	known := ok && !pending(was)
	if known && from.isEvent() && protocol.NotAfter(now.ResourceVersion, was.ResourceVersion) {
		return nil // delivered before, or acked ahead of where the watch resumes
	}
	if (from == Replayed || from == ListedAgain) && !known {
		if selected {
			return &Contradiction{now.ID, "it is new, and its resourceVersion is not"}
		}
		return nil
	}
	if !known || !from.isEvent() {
		others := x.others(now.ID)
		if from.isEvent() && x.isPast(now, others) {
			return nil
		}
		if err := x.putOthers(now, others, known, from, deliver); err != nil {
			return err
		}
	}
	doubt := x.doubt(now.ID, known, from)
	switch {
	case !selected && !known && (!ok || from.isEvent()):
		return nil
	case !selected:
		x.forget(was)
		left := was
		return doubt.after(deliver, Change{Kind: watch.Deleted, Left: &left})
	}
	now.UID = cmp.Or(now.UID, was.UID)
	x.update(was, now, ok, stale)
	switch {
	case !ok || pending(was):
		return deliver.call(Change{Kind: watch.Added, Pending: ok})
	case stale || was.ResourceVersion != now.ResourceVersion:
		return doubt.after(deliver, Change{Kind: watch.Modified})
	}
	return nil
}

// doubt returns what is wrong about an event, though it says what the object is now. It may be nil.
func (x *Index) doubt(id objects.ID, known bool, from Evidence) *Contradiction {
	switch {
	case known && from == Appeared:
		return &Contradiction{id, "it is added, and was not deleted before"}
	case known && from == Replayed:
		return &Contradiction{id, "it has changed, and its resourceVersion is not new"}
	}
	return nil
}

// after delivers a change, and returns c, or nil if that is nil.
func (c *Contradiction) after(deliver Deliver, ch Change) error {
	if c == nil {
		return deliver.call(ch)
	}
	ch.Doubtful = true
	if err := deliver.call(ch); err != nil {
		return err
	}
	return c
}

// isPast reports whether another object of the name is newer: an event of this one is sent again.
func (x *Index) isPast(now objects.Version, others []objects.Version) bool {
	return !x.shared && slices.ContainsFunc(others, func(other objects.Version) bool {
		return !pending(other) && protocol.Before(now.ResourceVersion, other.ResourceVersion)
	})
}

// renew enters a newer version of a known object in one search and without an allocation. It returns false if the entry
// is not a usual one, or there is more to find out.
func (x *Index) renew(now objects.Version) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := x.table.key(now.NamespacedName())
	return x.table.of(name.hash).renew(name, now)
}

// update enters the current version of an object. was is the entry before, if the object was known.
func (x *Index) update(was, now objects.Version, known, stale bool) {
	if known && was.UID != now.UID {
		x.forget(was)
	}
	x.Enter(now)
	if x.changed != nil && (!known || stale || was != now) {
		x.changed(now, false)
	}
}

// putOthers decides about the objects of the name of one that exists, with other uids. A new one of a list takes their
// place: their deletion was missed. An event that is newer than they are contradicts them. A pending entry is newer
// than the version where the watch resumes, so the watch will report its deletion.
func (x *Index) putOthers(now objects.Version, others []objects.Version, known bool, from Evidence, d Deliver) error {
	var gone []objects.Version
	for _, other := range others {
		switch {
		case from == Listed && (x.Saw(other.ID) || x.coming != nil && x.coming(other.ID)):
			x.shared = true
		case from == Listed && (known || x.shared): // the list may have it, too; EndList knows
		case !from.isEvent():
			gone = append(gone, other)
		case !x.shared && !pending(other) && !protocol.NotAfter(now.ResourceVersion, other.ResourceVersion):
			return &Contradiction{now.ID, "it is new, and another object of its name was not deleted"}
		}
	}
	return x.end(gone, d)
}

// others returns the objects of the same name that have another uid.
func (x *Index) others(of objects.ID) []objects.Version {
	x.mu.Lock()
	defer x.mu.Unlock()
	name := x.table.key(of.NamespacedName())
	return x.table.of(name.hash).others(name, of.UID)
}

// Remove removes an object that the server has reported as deleted, and delivers the changes. An event that is older
// than the entry is a replay. One of the same version is not: some servers send the last event of an object with the
// version of the event before.
func (x *Index) Remove(o objects.Version, from Evidence, deliver Deliver) error {
	was, _, ok := x.get(o.ID)
	switch {
	case ok && pending(was), ok && protocol.Before(o.ResourceVersion, was.ResourceVersion):
	case ok && from == Replayed && !protocol.NotAfter(was.ResourceVersion, o.ResourceVersion):
	case ok:
		var doubt *Contradiction
		if protocol.Before(was.ResourceVersion, o.ResourceVersion) {
			doubt = x.doubt(o.ID, true, from)
		}
		x.forget(was)
		return doubt.after(deliver, Change{Kind: watch.Deleted})
	case from == Happened && !x.shared:
		// If versions can't be compared, this may be a replay of an earlier object's end.
		for _, other := range x.others(o.ID) {
			if protocol.NotAfter(other.ResourceVersion, o.ResourceVersion) { // not a pending entry
				return &Contradiction{o.ID, "it came and went, and another object of its name was not deleted"}
			}
		}
	}
	return nil
}
