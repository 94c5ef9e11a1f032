package checkpoint

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// What is told to a receiver need not be what was marked: where only the newest
// state of an object is wanted (package mux), one event stands for several, and an
// object that came and went is not told at all. The marks of what is not told
// leave the sequence, so that they take no memory however long the receiver takes.
// What is kept may then be at a version at which an object had changed already; its
// change follows, as that of the event that stands for it, which is not acked yet,
// or was acked ahead of others.

// Cover says that the event of m stands for that of an older mark as well, of the
// same object and the same sequence, which is not told by itself. Neither has been
// acked. Both may be nil.
func (m *Mark) Cover(older *Mark) { m.cover(older, false) }

// CoverNew is Cover where that of the older mark tells that the object exists, or
// that it does not: what is kept does not get past it before m is acked, so that
// it has all objects that there were at its version, and no others but those that
// came and went before m.
func (m *Mark) CoverNew(older *Mark) { m.cover(older, true) }

func (m *Mark) cover(older *Mark, isNew bool) {
	if m == nil || older == nil || m == older {
		return
	}
	m.change(func(p *Progress) (entered int, due bool) {
		if older.progress != p || older.acked {
			return 0, false
		}
		var few [6]*Mark
		held := older.held(few[:0])
		if n := len(held); n > 0 {
			isNew = older.leaves(m) != held[n-1].leaves(m)
		}
		older.holds = nil
		if isNew {
			held = append(held, older)
		} else {
			entered, due = p.giveUp(older, m)
		}
		// What m stood for already is newer: what has parted the two is no more.
		n, moved := p.hold(m, m.held(held))
		return entered + n, due || moved
	})
}

// held appends those that m holds, oldest first.
func (m *Mark) held(to []*Mark) []*Mark {
	if m.holds == nil {
		return to
	}
	return append(m.holds.held(to), m.holds)
}

// hold lets m hold those of these marks, oldest first, with which an object went and
// came back. What came and went holds nothing back, so that there are two at most.
func (p *Progress) hold(m *Mark, marks []*Mark) (entered int, due bool) {
	giveUp := func(h *Mark) {
		n, moved := p.giveUp(h, m)
		entered, due = entered+n, due || moved
	}
	m.holds = nil
	there := len(marks) > 0 && !marks[0].leaves(m) // before the first of them
	for _, h := range marks {
		h.holds = nil
		before := m.holds
		switch is := h.leaves(m); {
		case is == there:
			giveUp(h)
		case there && before != nil:
			m.holds, before.holds = before.holds, nil
			giveUp(before)
			giveUp(h)
			there = false
		default:
			h.holds, m.holds, there = before, h, is
		}
	}
	if came := m.holds; came != nil && there && !m.leaves(m) {
		m.holds, came.holds = came.holds, nil
		giveUp(came)
	}
	return entered, due
}

// leaves says whether with m there is the object that of tells of.
func (m *Mark) leaves(of *Mark) bool {
	for _, c := range slices.Backward(m.changes) {
		if !c.Unacked && of.speaksOf(c) {
			return !c.Gone && !c.Hidden
		}
	}
	return false
}

// giveUp takes an older mark out of the sequence, for which m stands.
func (p *Progress) giveUp(older, m *Mark) (entered int, due bool) {
	p.session.ahead.handOver(older, m)
	older.changes = slices.DeleteFunc(older.changes, m.speaksOf)
	return p.leaveAlone(older)
}

// Undo says that the event of m is the end of what that of an older mark had
// begun, and that neither is told. Neither has been acked. Both may be nil.
func (m *Mark) Undo(older *Mark) {
	if m == nil || older == nil || m == older {
		return
	}
	m.Cover(older)
	m.change(func(p *Progress) (int, bool) {
		dropped := p.session.ahead.drop(m)
		p.session.dirty = p.session.dirty || dropped
		m.changes = slices.DeleteFunc(m.changes, func(c Change) bool { return c.Gone && !c.Unacked })
		entered, due := p.leave(m)
		return entered, due || dropped
	})
}

// Void says that the event is not told, and that nothing is lost by that: that
// another one says the same. It may be called on nil.
func (m *Mark) Void() {
	if m != nil {
		m.change(func(p *Progress) (int, bool) { return p.leave(m) })
	}
}

// change does f to a mark that has not been acked.
func (m *Mark) change(f func(*Progress) (entered int, due bool)) {
	s := m.progress.session
	s.mu.Lock()
	entered, due := 0, false
	if !m.acked && !s.over {
		entered, due = f(m.progress)
	}
	s.mu.Unlock()
	if due {
		s.tracker.due(entered)
	}
}

// speaksOf says whether m says what becomes of the object of c.
func (m *Mark) speaksOf(c Change) bool {
	return slices.ContainsFunc(m.changes, func(own Change) bool {
		return own.NamespacedName() == c.NamespacedName() && own.Unacked == c.Unacked
	})
}

// leave takes m out of the sequence. What it says of others is entered when its
// turn comes.
func (p *Progress) leave(m *Mark) (entered int, due bool) {
	for _, h := range m.release() {
		n, moved := p.giveUp(h, m)
		entered, due = entered+n, due || moved
	}
	n, moved := p.leaveAlone(m)
	return entered + n, due || moved
}

// release returns those that m holds, oldest first, and holds them no longer.
func (m *Mark) release() []*Mark {
	held := m.held(nil)
	for _, h := range held {
		h.holds = nil
	}
	m.holds = nil
	return held
}

func (p *Progress) leaveAlone(m *Mark) (entered int, due bool) {
	m.acked = true
	switch {
	case p.first == m:
		return p.advance(m)
	case len(m.changes) > 0 && m.point.snapshot != 0:
		return p.advance(m)
	case len(m.changes) > 0: // it is like a pass from here on
		p.unacked--
		m.told = time.Time{}
		next := m.next
		p.fuse(m)
		p.fuse(next)
		return 0, false
	}
	m.prev.point = m.point
	next := m.next
	p.unlink(m)
	p.fuse(next)
	if m.awaits == 0 {
		return p.enter(m), true
	}
	// What waits for it goes on waiting, for what it waits for itself.
	p.unacked--
	m.told = time.Time{}
	return 0, false
}

// fuse makes a pass part of the one before it, if there is one: there may be any
// number of them behind an event that is not acked.
func (p *Progress) fuse(m *Mark) {
	if m == nil || m.prev == nil || !m.isPass() || !m.prev.isPass() {
		return
	}
	m.prev.passes(m.changes)
	m.prev.point = m.point
	p.unlink(m)
}

// unlink takes m, which is not the first, out of the list.
func (p *Progress) unlink(m *Mark) {
	m.prev.next = m.next
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		p.last = m.prev
	}
	m.next, m.prev = nil, nil
}

// isPass says whether nobody is going to ack m, and nothing waits for it but the
// low-water mark.
func (m *Mark) isPass() bool {
	return m.acked && !m.entered && m.told.IsZero() && m.point.snapshot == 0 && m.awaits == 0 && len(m.awaited) == 0
}

// passes adds changes to those of a pass. Of each object only the last one counts,
// but for those that are to settle what was written ahead.
func (m *Mark) passes(changes []Change) {
	m.changes = append(m.changes, changes...)
	if len(m.changes) < 2*m.compacted+16 {
		return
	}
	type ghost struct {
		ID
		unacked bool
	}
	ahead := &m.progress.session.ahead
	names, ghosts := map[types.NamespacedName]bool{}, map[ghost]bool{}
	kept := m.changes[:0:0]
	for _, c := range slices.Backward(m.changes) {
		name, id := c.NamespacedName(), ghost{c.ID(), c.Unacked}
		_, settles := ahead.get(c.ID())
		if !c.Unacked && !names[name] || (c.Unacked || settles) && !ghosts[id] {
			kept = append(kept, c)
		}
		names[name], ghosts[id] = names[name] || !c.Unacked, true
	}
	slices.Reverse(kept)
	m.changes, m.compacted = kept, len(kept)
}

// MayBeKnown says whether the event is an ADDED or DELETED of what an earlier run was
// about to tell, or did: its receiver may know the object, or not. It may be called
// on nil.
func (m *Mark) MayBeKnown() bool {
	return m != nil && m.unsure
}

// handOver: what was to be settled by one mark will be by another.
func (a *ahead) handOver(from, to *Mark) {
	for _, c := range from.changes {
		if a.by[c.ID()] == from {
			a.by[c.ID()] = to
		}
		if of := a.prior[c.ID()]; of != nil { // that is not told by itself
			a.prior[c.ID()] = slices.DeleteFunc(of, func(p prior) bool { return p.by == from })
		}
	}
}

// drop: what was to be settled by m never comes. It says whether there was anything.
func (a *ahead) drop(m *Mark) (dropped bool) {
	for _, c := range m.changes {
		id := c.ID()
		if a.by[id] != m {
			continue
		}
		dropped = true
		earlier := slices.DeleteFunc(a.prior[id], prior.isEntered)
		if len(earlier) == 0 {
			a.forget(id)
			continue
		}
		// An earlier event has told of the object, or an earlier run, which may have been
		// handled.
		last := earlier[len(earlier)-1]
		a.prior[id] = earlier[:len(earlier)-1]
		a.by[id] = last.by
		a.told[id] = last.Object
	}
	return dropped
}
