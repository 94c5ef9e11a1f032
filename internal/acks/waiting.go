package acks

import (
	"maps"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// waiting are the entries of all lines that are not applied: their changes are not part of the next commit yet.
type waiting struct {
	pending map[objects.ID]queue
	// unapplied is the number of events: those that are not acked, and acked ones behind an earlier one that is not.
	unapplied int
	next      *draft
}

// queue has the entries with a change of one object, in the order of delivery.
type queue struct {
	entries []*entry
	ahead   bool // written ahead: an ADDED is about to follow
}

// append makes e the last entry of its line.
func (w *waiting) append(ln *line, e *entry, version string, partial bool) {
	ln.append(e, version, partial)
	if !e.delivered.IsZero() {
		w.unapplied++
	}
	for _, c := range e.changes {
		q := w.pending[c.ID]
		q.entries = append(q.entries, e)
		q.ahead = q.ahead && c.Gone
		w.pending[c.ID] = q
	}
}

// expect says that an object is about to be delivered, and reports whether it has no entry yet.
func (w *waiting) expect(id objects.ID) (fresh bool) {
	q, ok := w.pending[id]
	q.ahead = true
	w.pending[id] = q
	return !ok
}

// advance applies what the ack of e allows, and reports whether there is anything to commit.
func (w *waiting) advance(ln *line, e *entry) (dirty bool) {
	if ln.first != e {
		return w.overtake(e)
	}
	for ln.first != nil && ln.first.acked {
		w.apply(ln.first)
		if !ln.shift() {
			continue
		}
		// Events of this snapshot that are already acked count from now on.
		for e := ln.first; e != nil && e.point.snapshot == ln.low.snapshot; e = e.next {
			w.overtake(e)
		}
	}
	w.next.dirty = true
	return true
}

// overtake applies e although an earlier entry is not acked, if e is of the snapshot that the low-water mark is within:
// there the position has no version, and an object's entry waits only for earlier entries of the same object.
func (w *waiting) overtake(e *entry) (dirty bool) {
	if s := e.point.snapshot; !e.acked || e.applied || s == nil || !s.reached {
		return false
	}
	for _, c := range e.changes {
		if w.oldest(c.ID) != e {
			return false
		}
	}
	w.apply(e)
	return true
}

// apply makes the changes of e part of the next commit, and those of entries that waited for it. If an object is gone,
// and a later event may have delivered it again, its entry in the Store stays, without a version.
func (w *waiting) apply(e *entry) {
	if e.applied {
		return
	}
	e.applied = true
	changes := e.changes
	e.changes = nil
	if !e.delivered.IsZero() {
		w.unapplied--
		w.next.applied++
		w.next.deferred = false
	}
	for _, c := range changes {
		w.dequeue(c.ID, e)
		if _, again := w.pending[c.ID]; again && c.Gone {
			c = Change{Version: objects.Version{ID: c.ID}}
		}
		w.next.put(c)
	}
	for _, c := range changes {
		if e := w.oldest(c.ID); e != nil {
			w.overtake(e)
		}
	}
}

// coalesce gives e the changes of a newer entry, whose event is not delivered.
func (w *waiting) coalesce(ln *line, e, newer *entry) (dirty bool) {
	for i, own := range e.changes {
		for _, c := range w.withdraw(newer, own.ID) {
			e.changes[i] = c
		}
	}
	return w.drop(ln, newer)
}

// cancel says that neither the event of e, an ADDED, nor that of a newer entry, the DELETED of the same object, is
// delivered. The object's entry in the Store is removed, unless another event may have delivered the object.
func (w *waiting) cancel(ln *line, e, newer *entry) (dirty bool) {
	for _, c := range slices.Clone(newer.changes) {
		if !c.Gone || len(w.withdraw(e, c.ID)) == 0 {
			continue
		}
		w.withdraw(newer, c.ID)
		if _, ok := w.pending[c.ID]; !ok {
			w.next.put(c)
		}
	}
	dirty = w.drop(ln, newer)
	return w.drop(ln, e) || dirty
}

// drop turns e into a pass: its event is not delivered.
func (w *waiting) drop(ln *line, e *entry) (dirty bool) {
	e.acked = true
	if !e.delivered.IsZero() {
		w.unapplied--
		e.delivered = time.Time{}
	}
	if ln.first == e {
		return w.advance(ln, e)
	}
	if w.overtake(e) {
		return true
	}
	next := e.next
	w.fuse(ln, e)
	if next != nil {
		w.fuse(ln, next)
	}
	return false
}

// fuse merges a pass into the entry before it, so that passes take no memory behind an event that is not acked. A pass
// without changes fuses with any entry, one with changes only with another pass.
func (w *waiting) fuse(ln *line, e *entry) {
	to := e.prev
	if to == nil || !e.isPass() || to.point.snapshot != e.point.snapshot || len(e.changes) > 0 && !to.isPass() {
		return
	}
	for _, c := range e.changes {
		entries := w.pending[c.ID].entries
		for i, one := range entries {
			if one == e {
				entries[i] = to
			}
		}
	}
	to.changes = append(to.changes, e.changes...)
	to.point = e.point
	ln.remove(e)
}

// withdraw removes and returns the changes of an object from e.
func (w *waiting) withdraw(e *entry, id objects.ID) (taken []Change) {
	kept := e.changes[:0:0]
	for _, c := range e.changes {
		if c.ID == id {
			taken = append(taken, c)
			w.dequeue(id, e)
		} else {
			kept = append(kept, c)
		}
	}
	e.changes = kept
	return taken
}

// dequeue removes e from the entries of an object.
func (w *waiting) dequeue(id objects.ID, e *entry) {
	q := w.pending[id]
	q.entries = slices.DeleteFunc(q.entries, func(other *entry) bool { return other == e })
	if len(q.entries) == 0 && !q.ahead {
		delete(w.pending, id)
	} else {
		w.pending[id] = q
	}
}

// oldest returns the first entry of an object, or nil.
func (w *waiting) oldest(id objects.ID) *entry {
	if entries := w.pending[id].entries; len(entries) > 0 {
		return entries[0]
	}
	return nil
}

// draft is what the next commit has of a session.
type draft struct {
	changed    map[objects.ID]Change
	discards   bool // objects are not kept: the Store has none, or there is no next commit
	applied    int  // events since the session began
	dirty      bool // there are changes since the last commit
	committing bool // a commit is under way
	reset      bool // the commit replaces what is in the Store
	urgent     bool // an event waits for the commit
	unclean    bool // the Store has the position as Unclean; used with noWriteAhead
	deferred   bool // nothing is committed yet (see Begin)
	inherits   bool // what the run before has not committed is not in the Store yet
}

// put makes a change part of the next commit.
func (n *draft) put(c Change) {
	n.dirty = true
	if n.discards {
		return
	}
	if n.changed == nil {
		n.changed = map[objects.ID]Change{}
	}
	n.changed[c.ID] = c
}

// moveTo moves the changes to a delta.
func (n *draft) moveTo(d *checkpoint.Delta) {
	for id, c := range n.changed {
		o := checkpoint.Object{Namespace: id.Namespace, Name: id.Name, UID: id.UID}
		if c.Gone {
			d.Removed = append(d.Removed, o)
			continue
		}
		o.ResourceVersion = c.ResourceVersion
		d.Put = append(d.Put, o)
	}
	d.Reset = n.reset
	n.dirty, n.urgent, n.reset, n.changed, n.committing = false, false, false, nil, true
}

// restore adds an earlier delta of the key to the next commit.
func (n *draft) restore(d checkpoint.Delta) {
	n.dirty, n.reset = true, d.Reset
	newer := n.changed
	n.changed = make(map[objects.ID]Change, len(d.Put)+len(d.Removed))
	add := func(o checkpoint.Object, gone bool) {
		id := objects.ID{Namespace: o.Namespace, Name: o.Name, UID: o.UID}
		n.changed[id] = Change{Version: objects.Version{ID: id, ResourceVersion: o.ResourceVersion}, Gone: gone}
	}
	for _, o := range d.Put {
		add(o, false)
	}
	for _, o := range d.Removed {
		add(o, true)
	}
	maps.Copy(n.changed, newer)
}
