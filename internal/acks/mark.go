package acks

// Mark belongs to an event. It may be nil, and used from any goroutine. Users reach it through stream.Event, so Ack is
// its only exported method.
type Mark struct {
	ledger *ledger
	line   *line
	entry  entry
}

// Ack says that the event has been handled. It has no effect when it is called again, or after the next run under the
// same key has begun.
func (m *Mark) Ack() {
	if m == nil {
		return
	}
	if late := m.ledger.late.Load(); late != nil && !m.ledger.isAcked(&m.entry) {
		(*late)()
	}
	m.update(func(w *waiting) (dirty bool) {
		m.entry.acked = true
		return w.advance(m.line, &m.entry)
	})
}

// MayBeKnown reports whether the event of m is the ADDED of an object that an earlier run may have delivered.
func MayBeKnown(m *Mark) bool { return m != nil && m.entry.mayBeKnown }

// Coalesce says that one event is delivered in the place of two of the same object. m keeps its place in line and gets
// the changes of the newer mark, whose event is not delivered. It returns false, and does nothing, unless both are of
// the same Progress and neither has been acked.
func Coalesce(m, newer *Mark) (done bool) { return m.with(newer, (*waiting).coalesce) }

// Cancel says that neither the event of m, an ADDED, nor a newer one, the DELETED of the same object, is delivered. It
// returns false, and does nothing, unless both are of the same Progress and neither has been acked.
func Cancel(m, newer *Mark) (done bool) { return m.with(newer, (*waiting).cancel) }

// Skip says that the event of m is not delivered, and need not be.
func Skip(m *Mark) {
	m.update(func(w *waiting) (dirty bool) { return w.drop(m.line, &m.entry) })
}

// with calls f if both are of the same Progress and neither has been acked, and reports whether it did. If either is
// nil, or both are the same mark, there is nothing to do, and it returns true.
func (m *Mark) with(newer *Mark, f func(w *waiting, ln *line, e, newer *entry) (dirty bool)) (done bool) {
	if m == nil || newer == nil || m == newer {
		return true
	}
	m.update(func(w *waiting) (dirty bool) {
		done = newer.line == m.line && !newer.entry.acked
		return done && f(w, m.line, &m.entry, &newer.entry)
	})
	return done
}

// update calls f, unless m is nil or acked, or the ledger is closed.
func (m *Mark) update(f func(*waiting) (dirty bool)) {
	if m == nil {
		return
	}
	m.ledger.update(func(w *waiting) (dirty bool) { return !m.entry.acked && f(w) })
}
