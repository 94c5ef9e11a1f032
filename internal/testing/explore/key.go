package explore

import (
	"math/bits"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// AppendKey appends everything that the future of a world depends on, and not how it came about:
//
//   - What was delivered is what the receiver knows, how far, and what the last GAP has announced. By that alone
//     streamtest.Check judges a later event.
//   - Changes up to which everything was delivered, and that no request can ask for any more, are in what exists.
//   - Versions and uids are numbers of their rank. A server that goes back in time, or sends events again, uses old
//     ones: then they are themselves, and all changes count.
func (w *world) AppendKey(to []byte) []byte {
	k := keys{to: to, parity: w.setup.selects}
	if w.left.rewinds == 0 && w.server.epoch == 0 && w.left.replays == 0 && !w.setup.always.breaksVersions() {
		k.ranks, k.horizon, k.places = true, w.horizon(), make([]place, 0, 64)
	}
	w.session.appendTo(&k)
	w.appendTo(&k)
	return k.ranked()
}

// horizon returns the version up to which changes don't matter any more.
func (w *world) horizon() int8 {
	h := min(w.server.now, w.session.receiver.cursor)
	if w.left.lags > 0 {
		h = min(h, w.server.now-1)
	}
	if w.wire.open {
		h = min(h, w.wire.position)
	}
	if l, ok := w.session.state.(protocol.Listing); ok {
		if t := parseToken(l.Token()); t.version > 0 {
			h = min(h, t.version)
		}
	}
	if m, ok := protocol.Recall(w.session.state); ok && m.Version() != "" {
		h = min(h, number(m.Version()))
	}
	if w.left.resumes > 0 && w.session.report.version != "" {
		h = min(h, number(w.session.report.version))
	}
	return h
}

func (w *world) appendTo(k *keys) {
	s, r, l, x := &w.server, &w.session.receiver, &w.left, &w.wire
	for _, o := range s.at(k.horizon) {
		k.object(o)
	}
	for _, c := range s.log {
		if c.version > k.horizon {
			k.bytes(byte(c.kind), bit(c.poison))
			k.object(c.object)
		}
	}
	k.bytes(0xff, byte(s.epoch), byte(w.rush), byte(w.logins), bit(w.err != nil), bit(w.relists),
		byte(l.writes), byte(l.others), byte(l.poisons), byte(l.faults), byte(l.compactions), byte(l.restarts),
		byte(l.rewinds), byte(l.lags), byte(l.replays), byte(l.repeats), byte(l.resumes),
		bit(x.open), bit(x.broken), bit(x.expired), bit(x.markless), bit(x.existing))
	k.version(x.late)
	k.version(s.now)
	k.version(max(s.compacted, k.horizon))
	k.version(x.position)
	k.version(r.cursor)
	if l.lags > 0 {
		k.version(s.now - 1)
	}
	if !k.ranks {
		k.bytes(byte(s.answered), byte(s.uids))
	}
	if w.setup.always.breaksVersions() {
		r.appendTruth(k, w.past)
	}
	for i := range names {
		k.bytes(bit(x.sent[i]), bit(r.fresh[i]))
		k.object(r.known[i])
		k.object(r.gone[i])
	}
	k.bytes(byte(len(r.phase)), bit(r.went), byte(len(r.gap.Gap.Reason)), bit(r.gap.HistoryLost), bit(r.gap.Reused))
	k.text(r.gap.Gap.From)
	k.text(r.gap.To)
}

func (s *session) appendTo(k *keys) {
	e := &s.report
	k.text(e.version)
	k.bytes(bit(e.begun), bit(e.partial), bit(e.unclean), bit(e.rewound), bit(s.infers), byte(s.lastName),
		byte(len(s.retained)))
	for _, o := range s.retained {
		k.object(o)
	}
	for _, e := range s.entries {
		k.bytes(bit(e.seen), bit(e.stale))
		k.object(e.object)
	}
	k.bytes(0xfe)
	k.to = protocol.AppendKey(k.to, s.state, func(to []byte, text string) []byte {
		k.to = to
		k.text(text)
		return k.to
	})
}

// keys appends to a key.
type keys struct {
	to       []byte
	horizon  int8
	ranks    bool    // versions and uids are numbers of their rank
	places   []place // with ranks: of all versions and uids
	versions uint64  // with ranks: a bit for each that was appended
	uids     uint64
	parity   bool // whether a version is even counts, too
}

// place is where a version or a uid stands in the key.
type place struct {
	at    uint16
	isUID bool
}

func (k *keys) bytes(all ...byte) { k.to = append(k.to, all...) }

func (k *keys) object(o object) {
	if k.ranks {
		k.uids |= 1 << o.uid
		k.places = append(k.places, place{uint16(len(k.to)), true})
	}
	k.bytes(byte(o.uid), byte(o.name), byte(o.epoch))
	k.version(o.version)
}

func (k *keys) version(v int8) {
	if k.ranks {
		k.versions |= 1 << max(v, 0)
		k.places = append(k.places, place{uint16(len(k.to)), false})
	}
	k.bytes(byte(max(v, 0)))
	if k.parity {
		k.bytes(byte(v & 1))
	}
}

// text appends a version or a token.
func (k *keys) text(text string) {
	if t := parseToken(text); t.version > 0 {
		k.bytes(byte(t.from), byte(t.repeat))
		k.version(t.version)
		return
	}
	k.version(number(text))
}

// ranked returns the key, with the rank of each version and uid in its place.
func (k *keys) ranked() []byte {
	for _, p := range k.places {
		all := k.versions
		if p.isUID {
			all = k.uids
		}
		k.to[p.at] = byte(bits.OnesCount64(all & (1<<k.to[p.at] - 1)))
	}
	return k.to
}

func bit(set bool) byte {
	if set {
		return 1
	}
	return 0
}
