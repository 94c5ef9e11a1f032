package explore

import (
	"fmt"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// move is a Step: something happens to the server or to the program, or the Stream gets a reply.
type move struct {
	from  *world
	words string // what happens, if it is neither a write nor a reply
	write change
	reply reply
	calm  bool
	// leaves is the number of the event of this reply after which the program leaves the loop and resumes, or 0.
	leaves int8
}

// Calm reports whether the move is what a healthy server does.
func (m move) Calm() bool { return m.calm }

func (m move) String() string {
	switch {
	case m.words != "":
		return m.words
	case m.write.poison:
		return fmt.Sprintf("on the server: %v %v, which no watch can send", m.write.kind, m.write.object)
	case m.write.version > 0:
		return fmt.Sprintf("on the server: %v %v", m.write.kind, m.write.object)
	}
	text := "\t" + m.reply.String()
	if asked := m.from.request(); asked != "" {
		text = asked + " -> " + m.reply.String()
	}
	if m.leaves > 0 {
		text += fmt.Sprintf(", and the program leaves after %d of its events and resumes", m.leaves)
	}
	return text
}

// moves are what can happen in a world.
type moves struct {
	from    *world
	yield   func(move, *world)
	settled bool // no further reply is what a healthy server gives
}

// happens yields what follows if f happens to the world.
func (m *moves) happens(words string, f func(*world)) {
	next := *m.from
	next.news = false
	f(&next)
	m.yield(move{from: m.from, words: words}, &next)
}

// gets yields what follows a reply, once f has happened to the world. The first one that is yielded is that of a
// healthy server.
func (m *moves) gets(r reply, f func(*world)) {
	next := *m.from
	f(&next)
	next.take(r)
	m.yield(move{from: m.from, reply: r, calm: !m.settled}, &next)
	m.settled = true
	if m.from.left.resumes == 0 {
		return
	}
	delivered := len(next.session.receiver.events) - len(m.from.session.receiver.events)
	for leaves := range int8(delivered) {
		next := *m.from
		f(&next)
		next.session.leaves = leaves + 1
		next.take(r)
		m.yield(move{from: m.from, reply: r, leaves: leaves + 1}, &next)
	}
}

func free(*world)        {}
func faulty(w *world)    { w.left.faults-- }
func lagging(w *world)   { w.left.lags-- }
func repeating(w *world) { w.left.repeats-- }
func replaying(w *world) { w.left.replays-- }

// ofServer yields what can happen to the server while the Stream waits for a reply.
func (m *moves) ofServer() {
	s := m.from.server
	if m.from.left.writes > 0 && !m.from.hides() {
		for i, o := range s.at(s.now) {
			if m.from.setup.keeps && i == 0 {
				continue
			}
			if o.version == 0 {
				m.write(i, added)
				continue
			}
			m.write(i, modified)
			m.write(i, deleted)
		}
	}
	if m.from.left.others > 0 && !m.from.hides() {
		m.happens("the server's version moves on", func(w *world) { w.left.others--; w.server.now++ })
	}
	if m.from.left.compactions > 0 && max(s.compacted, m.from.horizon()) < s.now { // else nobody can notice it
		m.happens("the server compacts its history", func(w *world) {
			w.left.compactions--
			w.server.compacted = s.now
		})
	}
	if m.from.left.restarts > 0 {
		m.happens("the server restarts", func(w *world) {
			w.left.restarts--
			w.server.compacted, w.wire.broken = s.now, true
		})
	}
	for to := int8(1); m.from.left.rewinds > 0 && to < s.now; to++ {
		m.happens("the server goes back to version "+text(to), func(w *world) {
			w.left.rewinds--
			w.server.rewind(to)
			w.past, w.wire.broken = w.past.withRewind(to), true
		})
	}
}

// write yields a write, and one whose event no watch can send.
func (m *moves) write(name int, k kind) {
	for poison := range 1 + min(m.from.left.poisons, 1) {
		next := *m.from
		next.news = false
		next.left.writes--
		next.left.poisons -= poison
		c := next.server.write(name, k, poison > 0)
		next.past = next.past.with(c)
		m.yield(move{from: m.from, write: c}, &next)
	}
}

// hides reports whether another write could hide that the server has gone back in time: then a version that was undone
// is there again, and no client can notice it. Once the Stream has noticed, nothing is hidden.
func (w *world) hides() bool {
	next := w.server.now + 1
	m, _ := protocol.Recall(w.session.state)
	undone := next == w.server.answered || next == number(m.Version()) || next == w.wire.position
	if l, ok := w.session.state.(protocol.Listing); ok {
		undone = undone || next == parseToken(l.Token()).version
	}
	for _, e := range w.session.entries {
		undone = undone || next == e.version
	}
	return w.server.epoch > 0 && undone && !m.Rewound()
}

// resumes is what move.words says of a new run.
const resumes = "the program resumes at its position"

// resume yields a new run that begins where this one stands.
func (m *moves) resume() {
	m.happens(resumes, (*world).resume)
}

// request returns the request that the Stream waits for a reply to, as a conversation has it, or "" on an open watch.
func (w *world) request() string {
	switch s := w.session.state.(type) {
	case protocol.Listing:
		if s.Token() != "" {
			return "list continue=" + s.Token()
		}
		return "list"
	case protocol.Probing:
		if s.Whole() {
			return "list"
		}
		return "probe"
	case protocol.Connecting:
		if s.Initial() {
			return "watch initial"
		}
		return "watch " + s.Memory.Version()
	}
	return ""
}

// replies yields what follows each reply that the Stream can get.
func (m *moves) replies() {
	s := m.from.server
	switch state := m.from.session.state.(type) {
	case protocol.Listing:
		if m.from.setup.always == forbidsLists {
			m.gets(reply{kind: failed, class: protocol.Forbidden}, free)
			return
		}
		if state.Token() != "" {
			m.continued(parseToken(state.Token()))
		} else {
			m.lists(s.now, free)
			m.lags(m.lists)
		}
		m.fails()
	case protocol.Probing:
		switch m.from.setup.always {
		case forbidsLists:
			m.gets(reply{kind: failed, class: protocol.Forbidden}, free)
			return
		case expiresProbes:
			m.gets(reply{kind: failed, class: protocol.Expired}, free)
			return
		}
		var whole []object
		if state.Whole() {
			whole = s.list(s.now, 0)
		}
		m.gets(page(m.shown(s.now), token{}, whole), free)
		m.lags(func(version int8, paid func(*world)) { m.gets(page(m.shown(version), token{}, nil), paid) })
		m.fails()
	case protocol.Connecting:
		if state.Initial() {
			m.opensInitial()
		} else {
			m.opens(number(state.Memory.Version()))
		}
		m.fails()
	case protocol.ReadingInitial:
		m.initial()
	case protocol.Streaming:
		m.streams()
	case protocol.Waiting:
		m.gets(reply{kind: passes}, free)
		m.gets(reply{kind: givesUp}, free)
	}
}

// shown returns the version of a list of what exists at a version.
func (m *moves) shown(version int8) int8 { return m.from.server.shown(version, m.from.setup.always) }

// lags yields the replies of a replica that lags.
func (m *moves) lags(replies func(version int8, paid func(*world))) {
	if m.from.left.lags > 0 && m.from.server.now > 1 {
		replies(m.from.server.now-1, lagging)
	}
}

// lists yields the first page of a list: all of it, or one object.
func (m *moves) lists(version int8, paid func(*world)) {
	all := m.from.server.list(version, 0)
	if m.from.setup.always != forbidsPages {
		m.gets(page(m.shown(version), token{}, all), paid)
	}
	if len(all) > 0 {
		m.gets(page(m.shown(version), token{version, all[0].name + 1, 0}, all[:1]), paid)
	}
}

// continued yields the next page of a list.
func (m *moves) continued(t token) {
	s := m.from.server
	if t.version > s.now || t.version < s.compacted {
		m.gets(reply{kind: failed, class: protocol.Expired}, free)
		return
	}
	switch m.from.setup.always {
	case failsPages:
		m.gets(reply{kind: failed}, free)
		return
	case forbidsPages:
		m.gets(reply{kind: failed, class: protocol.Forbidden}, free)
		return
	}
	shown := m.shown(t.version)
	m.gets(page(shown, token{}, s.list(t.version, int(t.from))), free)
	first := s.list(t.version, 0)[:1]
	if m.from.left.faults > 0 {
		m.gets(page(shown, t, first), faulty) // the same page, with the same token
		if s.now != t.version {
			m.gets(page(m.shown(s.now), token{}, s.list(s.now, int(t.from))), faulty) // of another version
		}
	}
	if m.from.left.repeats > 0 {
		t.repeat++
		m.gets(page(shown, t, first), repeating) // the same page, with another token
	}
}

// opensInitial yields a watch that begins with initial events.
func (m *moves) opensInitial() {
	opens := func(version int8, paid func(*world)) {
		m.gets(reply{kind: opened}, func(w *world) {
			paid(w)
			w.wire = wire{open: true, position: version}
		})
	}
	opens(m.from.server.now, free)
	m.lags(opens)
	if m.from.left.faults > 0 {
		m.gets(reply{kind: opened}, func(w *world) {
			faulty(w)
			w.wire = wire{open: true, position: m.from.server.now, markless: true}
		})
	}
}

// opens yields a watch that begins at a version.
func (m *moves) opens(at int8) {
	if at == 0 || m.from.setup.always == restartsWatches {
		m.gets(reply{kind: opened}, func(w *world) {
			w.wire = wire{open: true, position: w.server.now, existing: true}
		})
		return
	}
	expired := at < m.from.server.compacted
	if expired && m.from.setup.always != closesExpired {
		m.gets(reply{kind: failed, class: protocol.Expired}, free)
	}
	m.gets(reply{kind: opened}, func(w *world) { w.wire = wire{open: true, position: at, expired: expired} })
}

// fails yields the failures of a request.
func (m *moves) fails() {
	if m.from.left.faults == 0 {
		return
	}
	for _, class := range m.from.setup.failures {
		if class != protocol.Unreadable {
			m.gets(reply{kind: failed, class: class}, faulty)
		}
	}
	for _, class := range m.from.setup.gateways {
		m.gets(reply{kind: failed, class: class, gateway: true}, faulty)
	}
	m.gets(reply{kind: failed, paced: true}, faulty)
}
