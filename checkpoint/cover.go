package checkpoint

import (
	"slices"
	"time"
)

// What is told to a receiver need not be what was marked: where only the newest
// state of an object is wanted (package mux), one event stands for several, and an
// object that came and went is not told at all. The marks of what is not told
// leave the sequence, so that they take no memory however long the receiver takes.
// What is kept may then be at a version at which an object had changed already; its
// change follows, as that of the event that stands for it, which is not acked yet.

// Cover says that the event of m stands for that of an older mark as well, of the
// same object and the same sequence, which is not told by itself. Neither has been
// acked. Both may be nil.
func (m *Mark) Cover(older *Mark) { m.cover(older, false) }

// CoverNew is Cover where that of the older mark tells that the object exists, or
// that it does not: what is kept does not get past it before m is acked, so that
// it has all objects that there were at its version, and no others.
func (m *Mark) CoverNew(older *Mark) { m.cover(older, true) }

func (m *Mark) cover(older *Mark, hold bool) {
	if m == nil || older == nil || m == older {
		return
	}
	m.change(func(p *Progress) (entered int, due bool) {
		if older.progress != p || older.acked {
			return 0, false
		}
		p.session.ahead.handOver(older, m)
		older.changes = slices.DeleteFunc(older.changes, m.speaksOf)
		switch {
		case older.holds != nil:
			m.holds, older.holds = older.holds, nil
		case hold:
			m.holds = older
			return 0, false
		}
		return p.leave(older)
	})
}

// Undo says that the event of m is the end of what that of an older mark had
// begun, and that neither is told. Neither has been acked. Both may be nil.
func (m *Mark) Undo(older *Mark) {
	if m == nil || older == nil || m == older {
		return
	}
	m.Cover(older)
	m.change(func(p *Progress) (int, bool) {
		p.session.ahead.drop(m)
		m.changes = slices.DeleteFunc(m.changes, func(c Change) bool { return c.Gone && !c.Unacked })
		return p.leave(m)
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
	if m.holds != nil {
		entered, due = p.leave(m.holds)
		m.holds = nil
	}
	n, moved := p.leaveAlone(m)
	return entered + n, due || moved
}

func (p *Progress) leaveAlone(m *Mark) (entered int, due bool) {
	m.acked = true
	if p.first == m || len(m.changes) > 0 {
		return p.advance(m)
	}
	m.prev.point = m.point
	m.prev.next = m.next
	if m.next != nil {
		m.next.prev = m.prev
	} else {
		p.last = m.prev
	}
	m.next, m.prev = nil, nil
	if m.awaits == 0 {
		return p.enter(m), true
	}
	// What waits for it goes on waiting, for what it waits for itself.
	p.unacked--
	m.told = time.Time{}
	return 0, false
}

// handOver: what was to be settled by one mark will be by another.
func (a *ahead) handOver(from, to *Mark) {
	for _, c := range from.changes {
		if a.by[c.ID()] == from {
			a.by[c.ID()] = to
		}
	}
}

// drop: what was to be settled by m never comes.
func (a *ahead) drop(m *Mark) {
	for _, c := range m.changes {
		if a.by[c.ID()] == m {
			a.forget(c.ID())
		}
	}
}
