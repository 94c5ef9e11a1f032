package acks

import (
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Mark belongs to an event. It may be nil, and used from any goroutine. Users reach it through stream.Event, so Ack is
// its only exported method.
type Mark struct {
	progress   *Progress
	point      point     // where the low-water mark is after this mark
	changes    []Change  // usually one, stored in the field one
	one        [1]Change // saves an allocation
	delivered  time.Time // zero for a pass, which has no event
	mayBeKnown bool

	acked, applied bool
	next, prev     *Mark // in the order of delivery
}

// Change is what an event changes in the checkpoint.
type Change struct {
	checkpoint.Object
	Gone bool // the object does not exist any more; its ResourceVersion is ignored
}

func (c Change) id() checkpoint.Object { return idOf(c.Object) }

// point is a place in a sequence.
type point struct {
	version  string // empty within a snapshot
	partial  bool   // this and the next two are as in checkpoint.Position
	rewound  bool
	unclean  bool
	snapshot int // the number of the snapshot that it is within, 0 for none
}

// Ack says that the event has been handled. It has no effect when it is called again, or after the next run under the
// same key has begun.
func (m *Mark) Ack() {
	m.update(func(p *Progress) bool {
		m.acked = true
		return p.advance(m)
	})
}

// MayBeKnown reports whether the event of m is the ADDED of an object that an earlier run may have delivered.
func MayBeKnown(m *Mark) bool { return m != nil && m.mayBeKnown }

// Coalesce says that one event is delivered in the place of two of the same object. m keeps its place in line and gets
// the changes of the newer mark, whose event is not delivered. It returns false, and does nothing, unless both are of
// the same Progress and neither has been acked.
func Coalesce(m, newer *Mark) (done bool) {
	return m.with(newer, func(p *Progress) bool {
		for i, own := range m.changes {
			for _, c := range newer.take(own.id()) {
				m.changes[i] = c
			}
		}
		return p.drop(newer)
	})
}

// Cancel says that neither the event of m, an ADDED, nor a newer one, the DELETED of the same object, is delivered. It
// returns false, and does nothing, unless both are of the same Progress and neither has been acked.
func Cancel(m, newer *Mark) (done bool) {
	return m.with(newer, func(p *Progress) bool {
		for _, c := range slices.Clone(newer.changes) {
			if c.Gone && len(m.take(c.id())) > 0 {
				newer.take(c.id())
				p.session.retract(c.id())
			}
		}
		dirty := p.drop(newer)
		return p.drop(m) || dirty
	})
}

// with calls f if both are of the same Progress and neither has been acked, and reports whether it did. If either is
// nil, or both are the same mark, there is nothing to do, and it returns true.
func (m *Mark) with(newer *Mark, f func(*Progress) (dirty bool)) (done bool) {
	if m == nil || newer == nil || m == newer {
		return true
	}
	m.update(func(p *Progress) bool {
		done = newer.progress == p && !newer.acked
		return done && f(p)
	})
	return done
}

// Skip says that the event of m is not delivered, and need not be.
func Skip(m *Mark) {
	m.update(func(p *Progress) bool { return p.drop(m) })
}

// update calls f, unless m has been acked or the session is closed, and schedules a commit of what f has applied.
func (m *Mark) update(f func(*Progress) (dirty bool)) {
	if m == nil {
		return
	}
	s := m.progress.session
	s.mu.Lock()
	before, due := s.next.applied, false
	if !m.acked && s.phase != closed {
		due = f(m.progress)
	}
	applied := s.next.applied - before
	s.mu.Unlock()
	if due {
		s.engine.due(applied)
	}
}

// isPass reports whether m is a pass: a mark without an event.
func (m *Mark) isPass() bool { return m.acked && !m.applied && m.delivered.IsZero() }

// take removes and returns the changes of an object.
func (m *Mark) take(id checkpoint.Object) (taken []Change) {
	kept := m.changes[:0:0]
	for _, c := range m.changes {
		if c.id() == id {
			taken = append(taken, c)
			m.progress.session.dequeue(id, m)
		} else {
			kept = append(kept, c)
		}
	}
	m.changes = kept
	return taken
}
