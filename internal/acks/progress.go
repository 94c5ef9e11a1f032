package acks

import (
	"context"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Progress is how far one namespace of a sequence (or the cluster) has been delivered and acked. Each namespace has
// versions of its own. Note, MayBeKnown, Mark and Pass are called by one goroutine at a time, in the order of delivery.
type Progress struct {
	session *Session
	next    nextMark

	// session.mu guards the rest.
	waiting   markList
	low       point // everything up to here has been acked
	moved     bool  // low has moved since the session began
	delivered point // everything up to here has been delivered
	snapshots int   // begun so far
	stored    stored
}

// stored is what the Store has of a Progress, so that the next run does not begin as if nothing had been delivered.
type stored struct {
	begun   bool // that the sequence has begun here; the next run begins with a GAP if there is no version
	version bool // a version, at which the next run resumes
}

// nextMark is what the next Mark will have.
type nextMark struct {
	noted      []Change // since the last mark
	mayBeKnown bool
	first      bool // of a deferred session: no pass goes before this mark
}

// markList are the marks above the low-water mark, in the order of delivery.
type markList struct {
	first, last *Mark
	unacked     int // events among them
}

// Note adds a change to the next Mark, or if no event delivers it, to the next Pass.
func (p *Progress) Note(c Change) { p.next.noted = append(p.next.noted, c) }

// MayBeKnown says that the next Mark is for the ADDED of an object that an earlier run may have delivered.
func (p *Progress) MayBeKnown() { p.next.mayBeKnown = true }

// Rewound says that the server has gone back in time. Until an event after a snapshot is acked, the next run can't
// resume from an acked version: it has to report the rewind first, and then everything again. The same is true for the
// others: the namespaces that are not watched now, or whose watch is not open.
//
// An error is the cause of ctx: nothing more must be delivered then.
func (p *Progress) Rewound(ctx context.Context, others ...*Progress) error {
	return p.writeFirst(ctx, func() bool {
		known := p.delivered.rewound
		for _, p := range append(others, p) {
			p.delivered.rewound, p.low.rewound = true, true
			for m := p.waiting.first; m != nil; m = m.next {
				m.point.rewound = true
			}
		}
		return !known
	})
}

// Mark returns the mark of an event. After the event the sequence is at resourceVersion, which is empty within a
// snapshot. Partial is as in checkpoint.Position.
func (p *Progress) Mark(resourceVersion string, partial bool) *Mark {
	m := &Mark{progress: p, delivered: time.Now(), mayBeKnown: p.next.mayBeKnown}
	noted := p.next.noted
	p.next = nextMark{}
	if len(noted) == 1 {
		m.one[0] = noted[0]
		m.changes = m.one[:]
		p.next.noted = noted[:0]
	} else {
		m.changes = noted
	}
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.waiting.unacked++
	p.append(m, resourceVersion, partial)
	return m
}

// Pass moves the sequence to a version with a pass, which is a mark without an event to ack: after a bookmark, at the
// beginning of a snapshot, or with the changes of objects that are not delivered.
func (p *Progress) Pass(resourceVersion string, partial bool) {
	s := p.session
	s.mu.Lock()
	here := p.delivered.version == resourceVersion && p.delivered.partial == partial
	if p.next.first || len(p.next.noted) == 0 && here {
		s.mu.Unlock()
		return
	}
	m := &Mark{progress: p, acked: true, changes: p.next.noted}
	p.next.noted = nil
	p.append(m, resourceVersion, partial)
	due := p.advance(m)
	if !due {
		p.fuse(m)
	}
	s.mu.Unlock()
	if due {
		s.engine.due(0)
	}
}

// WritesAhead reports whether WriteAhead may have to write. With NoWriteAhead it writes once: that the position is
// Unclean.
func (p *Progress) WritesAhead() bool {
	s := p.session
	if !s.engine.options.NoWriteAhead {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.next.unclean && !s.next.deferred
}

// IsWrittenAhead reports whether the Store has an entry for an object that is about to be delivered, or will get one
// with the next commit.
func (p *Progress) IsWrittenAhead(o checkpoint.Object) bool {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	_, ok := p.session.pending[idOf(o)]
	return ok
}

// WriteAhead commits entries for objects that are about to be delivered as ADDED. While commits fail it returns at
// once: Status shows the failure, and delivery continues. If it returns an error, which is the cause of ctx, the
// objects must not be delivered. It may be called from any goroutine.
func (p *Progress) WriteAhead(ctx context.Context, objects []checkpoint.Object) error {
	s := p.session
	if len(objects) == 0 || !p.WritesAhead() || s.engine.final.Load() {
		return nil
	}
	return p.writeFirst(ctx, func() bool {
		p.stored.begun = true
		if s.engine.options.NoWriteAhead {
			s.next.urgent = true
			objects = nil
		}
		for _, o := range objects {
			id := idOf(o)
			l, ok := s.pending[id]
			l.ahead = true
			s.pending[id] = l
			if !ok { // else the object's entry from an earlier event stays until its marks are applied
				s.change(Change{Object: id})
				s.next.urgent = true
			}
		}
		return s.next.urgent
	})
}

// WriteSynced is called before the SYNCED of a version is delivered. Unless the Store knows more, it commits
//
//   - that the sequence has begun: then the next run begins with a GAP even if the ack of SYNCED was never committed
//     and no object exists,
//   - in a deferred session the version: nothing was delivered, so everything up to there counts as acked.
//
// It returns an error as WriteAhead does.
func (p *Progress) WriteSynced(ctx context.Context, resourceVersion string, partial bool) error {
	if p.next.first {
		p.next.first = false
		p.Pass(resourceVersion, partial)
		p.session.mu.Lock()
		p.session.next.deferred = false
		p.session.mu.Unlock()
	}
	return p.writeFirst(ctx, func() bool {
		first := !p.stored.begun
		p.stored.begun = true
		return first
	})
}

// WriteVersion is called before a live event is delivered. If SYNCED is acked and the Store has no version, it commits
// the version: changes since then must not be lost if the program is killed. It returns an error as WriteAhead does.
func (p *Progress) WriteVersion(ctx context.Context) error {
	return p.writeFirst(ctx, func() bool { return p.low.version != "" && !p.stored.version })
}

// writeFirst commits if due returns true, which is called with session.mu held.
func (p *Progress) writeFirst(ctx context.Context, due func() bool) error {
	s := p.session
	s.mu.Lock()
	wait := due() && !s.next.deferred
	s.next.urgent = s.next.urgent || wait
	s.next.dirty = s.next.dirty || wait
	s.mu.Unlock()
	if !wait || s.engine.final.Load() {
		return nil
	}
	return s.engine.writeAhead(ctx, s)
}

// append makes m the newest mark.
func (p *Progress) append(m *Mark, version string, partial bool) {
	if version == "" && p.delivered.version != "" {
		p.snapshots++
	}
	// The end of a snapshot repairs what was rewound or unclean.
	ended := version != "" && p.delivered.version == ""
	rewound, unclean := p.delivered.rewound && !ended, p.delivered.unclean && !ended
	p.delivered = point{version: version, partial: partial, rewound: rewound, unclean: unclean}
	if version == "" {
		p.delivered.snapshot = p.snapshots
	}
	m.point = p.delivered
	for _, c := range m.changes {
		p.session.enqueue(c, m)
	}
	if p.waiting.last == nil {
		p.waiting.first = m
	} else {
		p.waiting.last.next, m.prev = m, p.waiting.last
	}
	p.waiting.last = m
}

// advance applies what the ack of m allows, and reports whether there is anything to commit.
func (p *Progress) advance(m *Mark) (dirty bool) {
	if p.waiting.first != m {
		return p.overtake(m)
	}
	for m := p.waiting.first; m != nil && m.acked; m = p.waiting.first {
		p.apply(m)
		p.waiting.first = m.next
		m.next = nil // an event that the caller keeps must not keep all later ones in memory
		if p.waiting.first == nil {
			p.waiting.last = nil
		} else {
			p.waiting.first.prev = nil
		}
		began := m.point.snapshot != 0 && m.point.snapshot != p.low.snapshot
		p.low, p.moved = m.point, true
		if began { // events of this snapshot that are already acked count from now on
			for m := p.waiting.first; m != nil && m.point.snapshot == p.low.snapshot; m = m.next {
				p.overtake(m)
			}
		}
	}
	p.session.next.dirty = true
	return true
}

// overtake applies m although an earlier mark is not acked, if m is of the snapshot that the low-water mark is within:
// there the position has no version, and an object's mark waits only for earlier marks of the same object.
func (p *Progress) overtake(m *Mark) (dirty bool) {
	if !m.acked || m.applied || m.point.snapshot == 0 || m.point.snapshot != p.low.snapshot {
		return false
	}
	for _, c := range m.changes {
		if p.session.oldest(c.id()) != m {
			return false
		}
	}
	p.apply(m)
	return true
}

// apply makes the changes of m part of the next commit, and those of marks that waited for it.
func (p *Progress) apply(m *Mark) {
	if m.applied {
		return
	}
	m.applied = true
	changes := m.changes
	m.changes = nil
	if !m.delivered.IsZero() {
		p.waiting.unacked--
		p.session.next.applied++
		p.session.next.deferred = false
	}
	for _, c := range changes {
		p.session.apply(c, m)
	}
	for _, c := range changes {
		if next := p.session.oldest(c.id()); next != nil {
			next.progress.overtake(next)
		}
	}
}

// drop turns m into a pass: its event is not delivered.
func (p *Progress) drop(m *Mark) (dirty bool) {
	m.acked = true
	if !m.delivered.IsZero() {
		p.waiting.unacked--
		m.delivered = time.Time{}
	}
	if p.waiting.first == m {
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

// fuse merges a pass into the mark before it, so that passes take no memory behind an event that is not acked. A pass
// without changes fuses with any mark, one with changes only with another pass.
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
			p.session.requeue(c.id(), m, to)
		}
		to.changes = append(to.changes, m.changes...)
	}
	to.point = m.point
	to.next = m.next
	if m.next != nil {
		m.next.prev = to
	} else {
		p.waiting.last = to
	}
	m.next, m.prev = nil, nil
}
