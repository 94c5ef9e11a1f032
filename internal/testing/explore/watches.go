package explore

import (
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
)

// initial yields what arrives on a watch that began with initial events.
func (m *moves) initial() {
	x := m.from.wire
	if m.from.setup.always == breaksInitial {
		m.gets(reply{kind: ends, lasted: true}, free)
		return
	}
	m.unsent()
	switch {
	case x.broken || len(m.from.wire.unsent(&m.from.server)) > 0:
	case !x.markless:
		m.gets(reply{kind: marker, version: x.position}, free)
		if m.from.left.faults > 0 {
			m.gets(reply{kind: marker}, faulty) // without a version
		}
	default:
		m.live()
		m.gets(reply{kind: bookmark, version: x.position}, free)
	}
	m.closes()
}

// unsent yields each of the objects that a watch begins with and has not sent.
func (m *moves) unsent() {
	if m.from.wire.broken {
		return
	}
	for _, o := range m.from.wire.unsent(&m.from.server) {
		m.gets(sends(change{object: o}), func(w *world) { w.wire.sent[o.name] = true })
	}
}

func (x *wire) unsent(s *server) (objects []object) {
	for _, o := range s.list(x.position, 0) {
		if !x.sent[o.name] {
			objects = append(objects, o)
		}
	}
	return objects
}

// streams yields what arrives on a watch.
func (m *moves) streams() {
	x, s := m.from.wire, m.from.server
	of := m.from.session.state.(protocol.Streaming)
	if of.Doubted() && !m.from.relists {
		m.gets(reply{kind: relists}, free) // at once
		return
	}
	m.settled = m.from.idle()
	switch {
	case x.expired:
		if m.from.setup.always != closesExpired {
			m.gets(reply{kind: ends, failed: true, class: protocol.Expired}, free)
		}
		m.gets(reply{kind: ends}, free)
		return
	case m.from.behind():
		m.gets(reply{kind: silent}, free)
	}
	switch {
	case x.broken:
	case x.existing && len(m.from.wire.unsent(&m.from.server)) > 0:
		m.unsent()
	default:
		m.live()
	}
	if x.late > 0 {
		return // if it does not come, nobody can know of it
	}
	if of.Unconfirmed() || of.Restarted() {
		m.gets(reply{kind: goesOn}, free)
	}
	if of.Doubted() {
		m.gets(reply{kind: relists}, free)
	}
	if !x.broken {
		if !m.from.wire.sendsMore(&m.from.server) && !m.from.behind() && !m.from.setup.fake {
			m.gets(reply{kind: bookmark, version: s.now}, func(w *world) { w.wire.position = s.now })
			if m.from.left.faults > 0 {
				m.gets(reply{kind: bookmark}, faulty) // without a version
			}
		}
		for _, c := range s.log {
			if c.version <= x.position && m.from.left.replays > 0 && s.epoch == 0 && !c.poison {
				m.gets(sends(c), replaying)
			}
		}
	}
	m.closes()
}

// behind reports whether the server is at an older version than the Stream: then it has nothing to send.
func (w *world) behind() bool { return w.server.now < number(w.session.report.version) }

// idle reports whether a healthy server has nothing more to send.
func (w *world) idle() bool {
	of, streaming := w.session.state.(protocol.Streaming)
	waits := of.Unconfirmed() || of.Restarted() || of.Doubted()
	if of.Doubted() && w.setup.always.breaksVersions() { // again and again: a list after the last change is enough
		r := &w.session.receiver
		waits = r.phase != sequence.Synced || r.asked() < moment(len(w.past.changes))
	}
	return streaming && !waits && !w.wire.sendsMore(&w.server) && !w.behind() && !w.wire.broken && !w.wire.expired
}

// sendsMore reports whether a watch has something to send.
func (x *wire) sendsMore(s *server) bool {
	_, more := s.after(x.position)
	return more || x.late > 0 || x.existing && len(x.unsent(s)) > 0
}

// live yields the next change.
func (m *moves) live() {
	if late := m.from.wire.late; late > 0 {
		c, _ := m.from.server.after(late - 1)
		m.gets(sends(c), func(w *world) { w.wire.late = 0 })
		return
	}
	switch c, ok := m.from.server.after(m.from.wire.position); {
	case !ok:
	case c.poison:
		m.gets(reply{kind: ends, failed: true, class: protocol.Unreadable}, free)
	default:
		m.gets(sends(c), func(w *world) { w.wire.position = c.version })
		next, ok := m.from.server.after(c.version)
		if ok && m.from.setup.always == swapsEvents && next.uid != c.uid && !next.poison {
			m.gets(sends(next), func(w *world) { w.wire.position, w.wire.late = next.version, c.version })
		}
	}
}

// closes yields the ends of a watch. Those that a healthy server causes are free, as all are of one that is broken.
func (m *moves) closes() {
	if m.from.wire.broken {
		m.gets(reply{kind: silent}, free)
		m.gets(reply{kind: ends, failed: true}, free)
		return
	}
	if of, ok := m.from.session.state.(protocol.Streaming); ok && of.Restarted() {
		return // it goes on first: see goesOn
	}
	m.gets(reply{kind: ends, lasted: true}, free)
	// Initial events take seconds, or the watch counts as dead.
	if _, initial := m.from.session.state.(protocol.ReadingInitial); !initial {
		m.gets(reply{kind: ends, lasted: true, planned: true}, free)
	}
	if m.from.left.faults == 0 {
		return
	}
	m.gets(reply{kind: silent}, faulty)
	m.gets(reply{kind: ends}, faulty)
	m.gets(reply{kind: ends, failed: true, paced: true}, faulty)
	m.gets(reply{kind: ends, failed: true, class: protocol.ServerError, lasted: true}, faulty)
	for _, class := range m.from.setup.failures {
		if class != protocol.Unusable {
			m.gets(reply{kind: ends, failed: true, class: class}, faulty)
		}
	}
}
