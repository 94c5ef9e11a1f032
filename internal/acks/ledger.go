package acks

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// ledger is what one session of a key knows: which events are acked, up to where all are, and what the next commit has.
// It only keeps books: it does no I/O, starts nothing, and reads no clock. The goroutine that delivers calls mark, pass
// and synced; any goroutine may call the others.
type ledger struct {
	key      string
	identity checkpoint.Identity
	rules    rules
	// due is called, without mu, when there is something to commit, with the events newly applied. It is a function, so
	// that a ledger can be driven without a committer.
	due  func(events int)
	late atomic.Pointer[func()] // called before an ack, once the Tracker is closed

	mu      sync.Mutex
	start   checkpoint.Position // without objects
	lines   map[string]*line    // by namespace
	waiting waiting
	next    draft
	phase   phase
}

// rules are what a ledger has to know of its Tracker.
type rules struct {
	noWriteAhead bool // new objects are delivered before the Store has an entry for them
	noObjects    bool // the Store keeps positions only
	waits        bool // events wait for their commit even if there will be none
	deferred     bool // nothing is committed before the first SYNCED (see Begin)
	reset        bool // the first commit replaces what is in the Store
}

// phase is that of a run, whose events are acked for longer than it delivers them; it is no State of a Stream.
type phase int

const (
	running phase = iota
	ended         // delivers no more events; acks still count
	closed        // acks don't count any more: the next session has begun
)

// newLedger returns the ledger of a sequence that starts from the beginning.
func newLedger(key string, id checkpoint.Identity, r rules, due func(events int)) *ledger {
	l := &ledger{key: key, identity: id, rules: r, due: due, lines: map[string]*line{}}
	l.next = draft{discards: r.noObjects, deferred: r.deferred, reset: r.reset}
	l.waiting = waiting{pending: map[objects.ID]queue{}, next: &l.next}
	return l
}

// resume makes a new ledger start from a position. The next commit has what of it is uncommitted, which may be nil.
func (l *ledger) resume(from checkpoint.Position, uncommitted *checkpoint.Delta) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = from
	l.start.ResourceVersions, l.start.Objects = maps.Clone(from.ResourceVersions), nil
	l.next.deferred = false
	if uncommitted != nil {
		l.next.restore(*uncommitted)
		l.next.inherits = true
	}
}

// line returns the line of a watched namespace, or of the cluster ("").
func (l *ledger) line(namespace string) *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.lines[namespace]
	if ln == nil {
		ln = newLine(&l.start, namespace)
		ln.next.first = l.next.deferred
		l.lines[namespace] = ln
	}
	return ln
}

// mark adds the entry of an event, with what was noted. After the event the sequence is at a version, which is empty
// within a snapshot.
func (l *ledger) mark(ln *line, e *entry, version string, partial bool) {
	ln.next.fill(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.append(ln, e, version, partial)
}

// pass moves the sequence to a version with an entry that needs no ack, if anything was noted or the version is new.
func (l *ledger) pass(ln *line, version string, partial bool) {
	l.update(func(w *waiting) (dirty bool) {
		here := ln.delivered.version == version && ln.delivered.partial == partial
		if ln.next.first || len(ln.next.noted) == 0 && here {
			return false
		}
		e := &entry{acked: true, changes: ln.next.noted}
		ln.next.noted = nil
		w.append(ln, e, version, partial)
		if w.advance(ln, e) {
			return true
		}
		w.fuse(ln, e)
		return false
	})
}

// update calls f, unless the ledger is closed, and says that a commit is due if f has applied something.
func (l *ledger) update(f func(*waiting) (dirty bool)) {
	l.mu.Lock()
	before, due := l.next.applied, false
	if l.phase != closed {
		due = f(&l.waiting)
	}
	applied := l.next.applied - before
	l.mu.Unlock()
	if due {
		l.due(applied)
	}
}

// ahead adds entries without a version for objects that are about to be delivered. As the next three methods, it
// reports whether the event has to wait for a commit.
func (l *ledger) ahead(ln *line, ids []objects.ID) (wait bool) {
	if !l.writesAhead() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(ids) == 0 {
		return l.await(l.next.inherits)
	}
	ln.begins = true
	if l.rules.noWriteAhead {
		return l.await(true)
	}
	if l.next.discards { // nothing more will be committed
		return l.await(l.rules.waits)
	}
	for _, id := range ids {
		if l.waiting.expect(id) { // else the object's entry from an earlier event stays until it is applied
			l.next.put(Change{Version: objects.Version{ID: id}})
			l.next.urgent = true
		}
		// That entry was not waited for if commits failed. It may be in the commit that is under way.
		l.next.urgent = l.next.urgent || l.next.committing
	}
	return l.await(l.next.urgent || l.next.inherits)
}

// synced is for a SYNCED that is about to be delivered: the Store has to know that the sequence has begun, and of a
// deferred one also the version.
func (l *ledger) synced(ln *line, version string, partial bool) (wait bool) {
	first := ln.next.first
	if first {
		ln.next.first = false
		l.pass(ln, version, partial)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next.deferred = l.next.deferred && !first
	ln.begins = true
	return l.await(!ln.stored.begun)
}

// live is for a live event that is about to be delivered: if SYNCED is acked, the Store has to know a version. It also
// has to have what the run before has left: entries that no event waits for any more, or the version of its SYNCED.
func (l *ledger) live(ln *line) (wait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.await(l.next.inherits || ln.low.version != "" && !ln.stored.version)
}

// rewound says that the server has gone back in time, behind where the lines are.
func (l *ledger) rewound(ln *line, others []*line) (wait bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := ln.delivered.rewound
	for _, ln := range append(others, ln) {
		ln.rewind()
	}
	return l.await(!known)
}

// await makes the next commit urgent if an event has to wait for it, and reports that. No event waits for a deferred
// commit.
func (l *ledger) await(needed bool) (wait bool) {
	wait = needed && !l.next.deferred
	l.next.urgent = l.next.urgent || wait
	l.next.dirty = l.next.dirty || wait
	return wait
}

// writesAhead reports whether ahead may have to write. With noWriteAhead it writes once: that the position is Unclean.
func (l *ledger) writesAhead() bool {
	if !l.rules.noWriteAhead {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.next.unclean && !l.next.deferred
}

// isWrittenAhead reports whether the Store has an entry for an object that is about to be delivered, or will get one
// with the next commit.
func (l *ledger) isWrittenAhead(id objects.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.waiting.pending[id]
	return ok
}

// status returns how many events are not acked up to the low-water marks, when the first of them was delivered, and
// whether a commit is due or under way.
func (l *ledger) status() (unacked int, oldest time.Time, uncommitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ln := range l.lines {
		if first := ln.first; first != nil && (oldest.IsZero() || first.delivered.Before(oldest)) {
			oldest = first.delivered
		}
	}
	return l.waiting.unapplied, oldest, l.next.dirty || l.next.committing
}

// take returns what there is to commit. The next call of the committer is committed.
func (l *ledger) take() (d checkpoint.Delta, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.next.dirty || l.next.deferred {
		return d, false
	}
	d = checkpoint.Delta{Key: l.key, Identity: l.identity, ResourceVersions: map[string]string{}}
	l.fillPosition(&d)
	d.Unclean = d.Unclean || l.rules.noWriteAhead && !l.isAllAcked()
	d.Partial = d.Partial || l.rules.noObjects
	l.next.moveTo(&d)
	return d, true
}

// fillPosition fills in the low-water marks. A namespace that is not watched now stays where it was.
func (l *ledger) fillPosition(d *checkpoint.Delta) {
	all := l.lines[""]
	if all == nil || !all.moved {
		maps.Copy(d.ResourceVersions, l.start.ResourceVersions)
	}
	moved := false
	add := func(partial, rewound, unclean bool) {
		d.Partial, d.Rewound, d.Unclean = d.Partial || partial, d.Rewound || rewound, d.Unclean || unclean
	}
	for n, ln := range l.lines {
		if ln.moved || ln.begins && ln.low.snapshot != nil {
			d.ResourceVersions[n] = ln.low.version
		}
		moved = moved || ln.moved
		add(ln.low.partial, ln.low.rewound, ln.low.unclean)
	}
	whole := all != nil // every namespace of the identity has a line
	if len(l.identity.Namespaces) > 0 {
		whole = !slices.ContainsFunc(l.identity.Namespaces, func(n string) bool { return l.lines[n] == nil })
	}
	if !whole {
		// Each namespace with a version or an object in the position has a line (newFanIn in package stream). So
		// once one of them has moved, the rest has nothing from before the rewind: its next watch begins with a list.
		add(l.start.Partial, l.start.Rewound && !moved, l.start.Unclean)
	}
}

// committed records how the commit of a delta ended. If it failed, the delta is part of the next commit.
func (l *ledger) committed(d checkpoint.Delta, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next.committing = false
	if err != nil {
		l.next.restore(d)
		return
	}
	l.next.unclean, l.next.inherits = d.Unclean, false
	for n, ln := range l.lines {
		version, begun := d.ResourceVersions[n]
		ln.stored = stored{begun: begun || ln.stored.begun, version: version != ""}
	}
}

// isUrgent reports whether an event waits for a commit.
func (l *ledger) isUrgent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next.urgent
}

// isDone reports whether the ledger has nothing to commit, and never will.
func (l *ledger) isDone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return (!l.next.dirty || l.next.deferred) && l.isAllAcked()
}

// isAllAcked reports whether no more events are delivered, and every delivered one is acked.
func (l *ledger) isAllAcked() bool { return l.phase >= ended && l.waiting.unapplied == 0 }

// end says that no more events are delivered.
func (l *ledger) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase = max(l.phase, ended)
	if l.rules.noWriteAhead && (l.next.unclean || l.next.committing) && l.isAllAcked() {
		l.next.dirty = true // the next commit has the position without Unclean
	}
}

// runs reports whether events may be delivered.
func (l *ledger) runs() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.phase == running
}

// hasUncommitted reports whether something was acked and not committed.
func (l *ledger) hasUncommitted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next.dirty && !l.next.deferred
}

// close makes later acks ineffective, and returns what has not been committed.
func (l *ledger) close() (d checkpoint.Delta, ok bool) {
	l.mu.Lock()
	l.phase = closed
	l.mu.Unlock()
	return l.take()
}

// stop says that nothing more will be committed. Late is called before acks that come from now on, unless it is nil.
func (l *ledger) stop(late func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next.discards, l.next.changed = true, nil
	if late != nil {
		l.late.Store(&late)
	}
}

func (l *ledger) isAcked(e *entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return e.acked
}
