package checkpoint

import (
	"context"
	"slices"
	"time"
)

// Progress is that of one namespace of a sequence, or of the cluster, which has
// versions of its own. It is for who delivers the events: Note, Mark and Pass are
// called by one goroutine at a time, in the order of delivery.
type Progress struct {
	session *Session
	noted   []Change // since the last mark
	maybe   bool     // of the next mark
	held    bool     // nothing is passed before the first mark

	// What follows is guarded by session.mu.
	first, last    *Mark // those above the low-water mark, in the order of delivery
	unacked        int   // events among them
	low, delivered point // everything up to low has been acked
	begun          bool  // low has moved
	snapshots      int   // so far
}

// Hold keeps everything of the session back until an event has been acked: where a
// sequence does not begin with a snapshot, the next run is to begin as this one until
// then. It must be called before anything else.
func (p *Progress) Hold() {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.held, p.session.held = true, true
}

// Note says what the next Mark means, or if no event delivers it the next Pass.
func (p *Progress) Note(c Change) { p.noted = append(p.noted, c) }

// MayBeKnown says that the next Mark is that of an ADDED of an object that an earlier
// run may have delivered already.
func (p *Progress) MayBeKnown() { p.maybe = true }

// Rewound says that the server has gone back in time. What was acked is no longer
// a place to go on from, whatever is acked: a run that begins now has to report that
// first, and everything again. It holds until an event is acked that follows a
// snapshot. The others are of namespaces that are not watched now: for them it holds
// as well. An error is ctx's: nothing more must be delivered then.
func (p *Progress) Rewound(ctx context.Context, others ...*Progress) error {
	s := p.session
	s.mu.Lock()
	known := p.delivered.rewound
	for _, p := range append(others, p) {
		p.delivered.rewound, p.low.rewound = true, true
		for m := p.first; m != nil; m = m.next {
			m.point.rewound = true
		}
	}
	wait := !known && !s.held
	s.urgent = s.urgent || wait
	s.dirty = s.dirty || wait
	s.mu.Unlock()
	if !wait {
		return nil
	}
	return s.tracker.writeAhead(ctx, s)
}

// Mark returns that of an event, after which the sequence is at a version: empty
// within a snapshot. Partial is as in Position.
func (p *Progress) Mark(resourceVersion string, partial bool) *Mark {
	m := &Mark{progress: p, delivered: time.Now(), maybe: p.maybe}
	p.maybe, p.held = false, false
	if len(p.noted) == 1 {
		m.one[0] = p.noted[0]
		m.changes = m.one[:]
		p.noted = p.noted[:0]
	} else {
		m.changes, p.noted = p.noted, nil
	}
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.unacked++
	p.append(m, resourceVersion, partial)
	return m
}

// Pass is for what is not delivered as an event, and so needs no ack: a bookmark,
// the beginning of a snapshot, an object that is only to be known.
func (p *Progress) Pass(resourceVersion string, partial bool) {
	s := p.session
	s.mu.Lock()
	at := p.delivered.version == resourceVersion && p.delivered.partial == partial
	if p.held || len(p.noted) == 0 && at {
		s.mu.Unlock()
		return
	}
	m := &Mark{progress: p, acked: true, changes: p.noted}
	p.noted = nil
	p.append(m, resourceVersion, partial)
	due := p.advance(m)
	if !due {
		p.fuse(m)
	}
	s.mu.Unlock()
	if due {
		s.tracker.due(0)
	}
}

// append makes m the newest mark.
func (p *Progress) append(m *Mark, version string, partial bool) {
	if version == "" && p.delivered.version != "" {
		p.snapshots++
	}
	// A snapshot that was delivered makes up for what was wrong before.
	ended := version != "" && p.delivered.version == ""
	rewound, unclean := p.delivered.rewound && !ended, p.delivered.unclean && !ended
	p.delivered = point{version: version, partial: partial, rewound: rewound, unclean: unclean}
	if version == "" {
		p.delivered.snapshot = p.snapshots
	}
	m.point = p.delivered
	for _, c := range m.changes {
		p.session.list(c, m)
	}
	if p.last == nil {
		p.first = m
	} else {
		p.last.next, m.prev = m, p.last
	}
	p.last = m
}

// advance enters what the ack of m allows, and says whether anything is to be
// committed.
func (p *Progress) advance(m *Mark) (moved bool) {
	if p.first != m {
		return p.overtake(m)
	}
	for m := p.first; m != nil && m.acked; m = p.first {
		p.enter(m)
		p.first = m.next
		m.next = nil // who keeps an event must not keep all that follow
		if p.first == nil {
			p.last = nil
		} else {
			p.first.prev = nil
		}
		began := m.point.snapshot != 0 && m.point.snapshot != p.low.snapshot
		p.low, p.begun = m.point, true
		if began { // what was acked of the snapshot already counts from now on
			for m := p.first; m != nil && m.point.snapshot == p.low.snapshot; m = m.next {
				p.overtake(m)
			}
		}
	}
	p.session.dirty = true
	return true
}

// overtake enters m if it may be entered though something before it is not: the
// position is at no version within a snapshot, and all that counts is which state
// of an object was handled last.
func (p *Progress) overtake(m *Mark) (moved bool) {
	if !m.acked || m.entered || m.point.snapshot == 0 || m.point.snapshot != p.low.snapshot {
		return false
	}
	for _, c := range m.changes {
		if p.session.eldest(c.ID()) != m {
			return false
		}
	}
	p.enter(m)
	return true
}

// enter makes what m says part of the next commit, and what waited for it.
func (p *Progress) enter(m *Mark) {
	if m.entered {
		return
	}
	m.entered = true
	changes := m.changes
	m.changes = nil
	if !m.delivered.IsZero() {
		p.unacked--
		p.session.entered++
		p.session.held = false
	}
	for _, c := range changes {
		p.session.enter(c, m)
	}
	for _, c := range changes {
		if next := p.session.eldest(c.ID()); next != nil {
			next.progress.overtake(next)
		}
	}
}

// leave takes m out of the sequence: its event is not delivered.
func (p *Progress) leave(m *Mark) (moved bool) {
	m.acked = true
	if !m.delivered.IsZero() {
		p.unacked--
		m.delivered = time.Time{}
	}
	if p.first == m {
		return p.advance(m)
	}
	if p.overtake(m) {
		return true
	}
	next := m.next
	p.fuse(m)
	if next != nil {
		p.fuse(next)
	}
	return false
}

// fuse makes a pass part of the mark before it, so that what no event delivers takes
// no memory behind an event that is not acked: an empty pass part of any mark, and
// one that knows of objects part of another pass.
func (p *Progress) fuse(m *Mark) {
	to := m.prev
	if to == nil || !m.isPass() || to.point.snapshot != m.point.snapshot {
		return
	}
	if len(m.changes) > 0 {
		if !to.isPass() {
			return
		}
		for _, c := range m.changes {
			p.session.relist(c.ID(), m, to)
		}
		to.changes = append(to.changes, m.changes...)
	}
	to.point = m.point
	to.next = m.next
	if m.next != nil {
		m.next.prev = to
	} else {
		p.last = to
	}
	m.next, m.prev = nil, nil
}

// isPass says whether nobody is going to ack m.
func (m *Mark) isPass() bool { return m.acked && !m.entered && m.delivered.IsZero() }

// Mark belongs to an event. Ack says that the event has been handled. All methods
// may be called on nil, and from any goroutine.
type Mark struct {
	progress  *Progress
	point     point    // that the low-water mark reaches with it
	changes   []Change // usually one, which is then in one
	one       [1]Change
	delivered time.Time // zero for a pass, which no event belongs to
	maybe     bool      // MayBeKnown

	acked, entered bool
	next, prev     *Mark // delivered after it and before it
}

// Change is what an event makes of what is known of an object.
type Change struct {
	Object
	// Gone: the object is no more. Of the Object only the ID counts.
	Gone bool
}

// point is a place that the low-water mark can have.
type point struct {
	version  string // empty within a snapshot
	partial  bool
	rewound  bool
	unclean  bool
	snapshot int // that it is within; zero for none
}

// Ack says that the event has been handled. Later calls do nothing, and neither do
// calls after the next run under the same key has begun.
func (m *Mark) Ack() {
	m.update(func(p *Progress) bool {
		m.acked = true
		return p.advance(m)
	})
}

// MayBeKnown says whether the event is an ADDED of an object that an earlier run may
// have delivered already.
func (m *Mark) MayBeKnown() bool { return m != nil && m.maybe }

// Coalesce says that the event of m is delivered as it is with a newer event of the
// same object and the same sequence, which is not delivered: m keeps its place, and
// says what the newer mark said of the object. Neither has been acked.
func (m *Mark) Coalesce(newer *Mark) (done bool) {
	return m.with(newer, func(p *Progress) bool {
		for i, own := range m.changes {
			for _, c := range newer.take(own.ID()) {
				m.changes[i] = c
			}
		}
		return p.leave(newer)
	})
}

// Cancel says that the event of m, an ADDED, and a newer one, the DELETED of the same
// object, are not delivered. Neither has been acked.
func (m *Mark) Cancel(newer *Mark) (done bool) {
	return m.with(newer, func(p *Progress) bool {
		for _, c := range slices.Clone(newer.changes) {
			if c.Gone && len(m.take(c.ID())) > 0 {
				newer.take(c.ID())
				p.session.forgo(c.ID())
			}
		}
		left := p.leave(newer)
		return p.leave(m) || left
	})
}

// with calls f if both are of one sequence and neither has been acked, and says so.
func (m *Mark) with(newer *Mark, f func(*Progress) (moved bool)) (done bool) {
	if m == nil || newer == nil || m == newer {
		return true
	}
	m.update(func(p *Progress) bool {
		done = newer.progress == p && !newer.acked
		return done && f(p)
	})
	return done
}

// Skip says that the event is not delivered, and that nothing is lost by that.
func (m *Mark) Skip() {
	m.update(func(p *Progress) bool { return p.leave(m) })
}

// update calls f, unless the mark has been acked or the session is over, and lets
// what f has entered be committed.
func (m *Mark) update(f func(*Progress) (moved bool)) {
	if m == nil {
		return
	}
	s := m.progress.session
	s.mu.Lock()
	before, due := s.entered, false
	if !m.acked && !s.over {
		due = f(m.progress)
	}
	entered := s.entered - before
	s.mu.Unlock()
	if due {
		s.tracker.due(entered)
	}
}

// take removes and returns what m says of an object.
func (m *Mark) take(id ID) (taken []Change) {
	kept := m.changes[:0:0]
	for _, c := range m.changes {
		if c.ID() == id {
			taken = append(taken, c)
			m.progress.session.unlist(id, m)
		} else {
			kept = append(kept, c)
		}
	}
	m.changes = kept
	return taken
}
