package acks

import (
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// Change is what an event changes in the checkpoint.
type Change struct {
	objects.Version      // embedded: a Change is the version that an object is now in
	Gone            bool // the object does not exist any more; its ResourceVersion is ignored
}

// point is a place in a sequence.
type point struct {
	version  string    // empty within a snapshot
	snapshot *snapshot // that it is within, or nil
	partial  bool      // this and the next two are as in checkpoint.Position
	rewound  bool
	unclean  bool
}

// snapshot is what the points within one snapshot share.
type snapshot struct {
	reached bool // by the low-water mark
}

// entry is what a ledger has of a mark: of an event, or of a pass, which has no event to ack.
type entry struct {
	point      point     // where the low-water mark is after this entry
	changes    []Change  // usually that of the event's object, stored in one; also none, or those of other objects
	one        [1]Change // saves an allocation
	delivered  time.Time // zero for a pass
	mayBeKnown bool      // the event is the ADDED of an object that an earlier run may have delivered

	acked, applied bool
	next, prev     *entry // in the order of delivery
}

// isPass reports whether e is a pass that waits.
func (e *entry) isPass() bool { return e.acked && !e.applied && e.delivered.IsZero() }

// line has the entries of one namespace that are above its low-water mark, in the order of delivery.
type line struct {
	next nextMark // of the goroutine that delivers; the ledger's mutex guards the rest

	first, last *entry
	low         point // everything up to here has been acked
	moved       bool  // low has moved since the session began
	delivered   point // everything up to here has been delivered
	snapshot    *snapshot
	begins      bool // the next commit has to say that the sequence has begun here
	stored      stored
}

// nextMark is what the next mark will have.
type nextMark struct {
	noted      []Change // since the last mark
	mayBeKnown bool
	first      bool // of a deferred session: no pass goes before this mark
}

// stored is what the Store has of a line, so that the next run does not begin as if nothing had been delivered.
type stored struct {
	begun   bool // that the sequence has begun here; the next run begins with a GAP if there is no version
	version bool // a version, at which the next run resumes
}

// newLine returns a line that begins where a position has the namespace.
func newLine(from *checkpoint.Position, namespace string) *line {
	version, moved := from.At(namespace)
	at := point{version: version, partial: from.Partial, rewound: from.Rewound, unclean: from.Unclean}
	ln := &line{snapshot: &snapshot{}, stored: stored{begun: version != "" || moved, version: version != ""}}
	if !ln.stored.begun {
		at.snapshot = ln.snapshot
		ln.snapshot.reached = true
	}
	ln.low, ln.delivered = at, at
	return ln
}

// fill moves what was noted into the entry of an event.
func (n *nextMark) fill(e *entry) {
	noted := n.noted
	e.mayBeKnown = n.mayBeKnown
	*n = nextMark{}
	if len(noted) == 1 {
		e.one[0] = noted[0]
		e.changes = e.one[:]
		n.noted = noted[:0]
	} else {
		e.changes = noted
	}
}

// append makes e the last entry. After it the sequence is at a version, or if that is empty, within a snapshot.
func (ln *line) append(e *entry, version string, partial bool) {
	was := ln.delivered
	if version == "" && was.version != "" {
		ln.snapshot = &snapshot{}
	}
	// The end of a snapshot repairs what was rewound or unclean.
	ended := version != "" && was.version == ""
	e.point = point{version: version, partial: partial, rewound: was.rewound && !ended, unclean: was.unclean && !ended}
	if version == "" {
		e.point.snapshot = ln.snapshot
	}
	ln.delivered = e.point
	if ln.last == nil {
		ln.first = e
	} else {
		ln.last.next, e.prev = e, ln.last
	}
	ln.last = e
}

// remove takes e out of the line.
func (ln *line) remove(e *entry) {
	if e.prev == nil {
		ln.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		ln.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.next, e.prev = nil, nil // an event that the caller keeps must not keep all later ones in memory
}

// shift moves the low-water mark over the first entry, and reports whether it reaches another snapshot.
func (ln *line) shift() (reached bool) {
	ln.low, ln.moved = ln.first.point, true
	ln.remove(ln.first)
	s := ln.low.snapshot
	if s == nil || s.reached {
		return false
	}
	s.reached = true
	return true
}

// rewind says that the server has gone back in time.
func (ln *line) rewind() {
	ln.delivered.rewound, ln.low.rewound = true, true
	for e := ln.first; e != nil; e = e.next {
		e.point.rewound = true
	}
}
