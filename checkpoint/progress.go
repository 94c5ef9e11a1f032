package checkpoint

import (
	"context"
	"time"
)

// Progress is that of one namespace of a sequence, or of the cluster, which has
// versions of its own. It is for who tells the events: Note, Mark and Pass are to
// be called by one goroutine at a time, in the order in which things are told.
type Progress struct {
	session   *Session
	namespace string
	noted     []Change // since the last mark
	unsure    bool     // of the next one
	held      bool     // nothing is kept before the first mark is acked
	begun     bool     // there has been a mark

	// What follows is guarded by session.mu.
	low         point // everything up to here has been acked
	told        point
	snapshots   int
	first, last *Mark // those above the low-water mark
	unacked     int
	objects     pending // of the snapshot that is being told
}

// Hold keeps everything back until the first event's mark has been acked: of a
// sequence that does not begin with a snapshot half a beginning is none. It must
// be called before anything else.
func (p *Progress) Hold() {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.held = true
	p.session.held++
}

// Note says what the next mark means, or if no event tells it the next Pass.
func (p *Progress) Note(c Change) { p.noted = append(p.noted, c) }

// Unsure says that the next mark's event tells of an object that an earlier run was
// about to tell, or did, so that its receiver may know it, or not (Mark.MayBeKnown).
func (p *Progress) Unsure() { p.unsure = true }

// Rewound says that the server has gone back in time. What was acked is no longer
// a place to go on from, whatever is acked: a run that begins now has to tell that
// first, and everything again. It holds until an event is acked that follows a
// snapshot. An error is ctx's: nothing more must be told then.
func (p *Progress) Rewound(ctx context.Context) error {
	s := p.session
	s.mu.Lock()
	known := p.told.rewound
	p.told.rewound, p.low.rewound = true, true
	for m := p.first; m != nil; m = m.next {
		m.point.rewound = true
	}
	wait := !known && s.held == 0
	s.urgent = s.urgent || wait
	s.dirty = s.dirty || wait
	s.mu.Unlock()
	if !wait {
		return nil
	}
	return s.tracker.writeAhead(ctx, s)
}

// Base says that a sequence which moves between scopes has listed what it had no
// version of, and up to which version that is known now. It counts from the next
// Mark or Pass on.
func (p *Progress) Base(rv string) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.told.base = rv
}

// Anew says that of a sequence which moves between scopes, what it began with by
// namespaces no longer counts: its own version does for all. It counts from the
// next Mark or Pass on.
func (p *Progress) Anew() {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	p.told.fresh = true
}

// Mark returns that of an event, after which the sequence is at a version: empty
// within a snapshot. Partial is as in Position.
func (p *Progress) Mark(resourceVersion string, partial bool) *Mark {
	m := &Mark{progress: p, told: time.Now(), unsure: p.unsure}
	p.unsure = false
	if len(p.noted) == 1 {
		m.one[0] = p.noted[0]
		m.changes = m.one[:]
		p.noted = p.noted[:0]
	} else {
		m.changes, p.noted = p.noted, nil
	}
	s := p.session
	s.mu.Lock()
	defer s.mu.Unlock()
	p.begun = true
	p.unacked++
	p.append(m, resourceVersion, partial)
	return m
}

// Pass is for what is not told as an event, and so needs no ack: a bookmark, the
// beginning of a snapshot, an object that is not wanted.
func (p *Progress) Pass(resourceVersion string, partial bool) {
	s := p.session
	s.mu.Lock()
	if p.held && !p.begun || len(p.noted) == 0 && p.told.version == resourceVersion && p.told.partial == partial {
		s.mu.Unlock()
		return
	}
	if p.merge(resourceVersion, partial) {
		s.mu.Unlock()
		return
	}
	m := &Mark{progress: p, acked: true, changes: p.noted}
	p.noted = nil
	p.append(m, resourceVersion, partial)
	_, due := p.advance(m)
	s.mu.Unlock()
	if due {
		s.tracker.due(0)
	}
}

// merge makes a pass part of the one before it, if both are behind an event that
// is not acked and at versions: there may be any number of them.
func (p *Progress) merge(version string, partial bool) bool {
	m := p.last
	if m == nil || !m.acked || !m.told.IsZero() || m.point.snapshot != 0 || version == "" {
		return false
	}
	m.passes(p.noted)
	p.noted = nil
	p.told.version, p.told.partial = version, partial
	m.point = p.told
	return true
}

func (p *Progress) append(m *Mark, version string, partial bool) {
	if version == "" && p.told.version != "" {
		p.snapshots++
		p.objects = pending{}
	}
	if version != "" && p.told.version == "" {
		p.session.ahead.unsaid(p.namespace)
	}
	// A snapshot that was told makes up for what was wrong before.
	made := version != "" && p.told.version == ""
	p.told = point{version: version, partial: partial, rewound: p.told.rewound && !made, unclean: p.told.unclean && !made, base: p.told.base, fresh: p.told.fresh}
	if version == "" {
		p.told.snapshot = p.snapshots
		p.await(m)
	} else {
		p.objects = nil
	}
	for _, c := range m.changes {
		if !c.Gone {
			p.session.ahead.tell(c.Object, m)
		}
	}
	m.point = p.told
	if p.last == nil {
		p.first = m
	} else {
		p.last.next, m.prev = m, p.last
	}
	p.last = m
}

// await finds the marks that m must not overtake, within a snapshot.
func (p *Progress) await(m *Mark) {
	for _, c := range m.changes {
		name := c.NamespacedName()
		if before := p.objects[name]; before != nil && before != m {
			before.awaited = append(before.awaited, m)
			m.awaits++
		}
		p.objects[name] = m
	}
}

// advance enters what the ack of m allows. It returns how many events that were,
// and whether anything is to be committed.
func (p *Progress) advance(m *Mark) (entered int, due bool) {
	if p.first != m {
		if !p.mayOvertake(m) {
			return 0, false
		}
		return p.enter(m), true
	}
	for m := p.first; m != nil && m.acked; m = p.first {
		entered += p.enter(m)
		p.first = m.next
		m.next = nil // who keeps an event must not keep all that follow
		if p.first == nil {
			p.last = nil
		} else {
			p.first.prev = nil
		}
		began := m.point.snapshot != 0 && m.point.snapshot != p.low.snapshot
		p.low = m.point
		if began {
			entered += p.overtake()
		}
	}
	p.session.dirty = true
	if p.held {
		p.held = false
		p.session.held--
	}
	return entered, true
}

// mayOvertake says whether m may be entered though something before it is not:
// the position is at no version meanwhile, and all that counts is which state of
// an object was handled last.
func (p *Progress) mayOvertake(m *Mark) bool {
	return m.acked && !m.entered && m.awaits == 0 && m.point.snapshot != 0 && m.point.snapshot == p.low.snapshot
}

// overtake enters what was acked of the snapshot that the low-water mark has come
// to.
func (p *Progress) overtake() int {
	n := 0
	for m := p.first; m != nil && m.point.snapshot == p.low.snapshot; m = m.next {
		if p.mayOvertake(m) {
			n += p.enter(m)
		}
	}
	return n
}

// enter makes what m says part of the next commit, and of those that waited for
// it.
func (p *Progress) enter(m *Mark) int {
	if m.entered {
		return 0
	}
	m.entered = true
	for _, c := range m.changes {
		p.session.enter(c, m)
		if name := c.NamespacedName(); p.objects[name] == m {
			delete(p.objects, name)
		}
	}
	n := 0
	if !m.told.IsZero() {
		n = 1
		p.unacked--
		p.session.entered++
	}
	later := m.awaited
	m.awaited, m.changes = nil, nil
	for _, l := range later {
		if l.awaits--; p.mayOvertake(l) {
			n += p.enter(l)
		}
	}
	return n
}

// oldest is when the first event that is not acked was told.
func (p *Progress) oldest() (time.Time, bool) {
	if p.first == nil {
		return time.Time{}, false
	}
	return p.first.told, true // else it would be below the low-water mark
}
