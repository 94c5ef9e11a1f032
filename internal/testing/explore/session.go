package explore

import (
	"errors"
	"fmt"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
)

// session is one run of a Stream: it does with a State of the protocol what a sequence.Worker does, with the same
// protocol and the same index, but without requests and time. What one has is not changed in place: a copy is another
// session.
type session struct {
	state    protocol.State
	entries  []entry
	retained []object // initial events until the marker; like the page in a Worker's inbox
	lastName int8     // the greatest name on the pages of this snapshot so far, plus one
	infers   bool     // a GAP has been delivered, or the run resumes with a snapshot
	fake     bool     // objects have neither versions nor uids
	selects  bool     // only objects of even versions are selected
	report   extent
	receiver receiver
	leaves   int8 // after so many events of this step the loop is left; 0 for never
	noting   bool // each event gets the Position at it
	now      moment
}

// selected is Options.Select.
func (s *session) selected(o object) bool { return !s.selects || o.version%2 == 0 }

// errLeft ends a step within which the loop is left.
var errLeft = errors.New("the loop was left")

// entry is an entry of the index.
type entry struct {
	object      // without its epoch, which the Stream can't know
	seen, stale bool
}

// extent is what a Worker's report has: how far everything has been delivered.
type extent struct {
	version                          string
	begun, partial, unclean, rewound bool
}

// begin starts a run at an Origin.
func begin(u *setup, from sequence.Origin) session {
	s, rules := session{fake: u.fake, selects: u.selects}, u.rules
	b, begun := protocol.Beginning{Version: from.After}, false
	rules.Quiet, rules.Partial = from.Now, from.After != ""
	if p := from.Position; p != nil {
		x := index.New(nil)
		for _, o := range p.Objects {
			x.Enter(entryOf(o))
		}
		rules.Partial, rules.Unclean = p.Partial, p.Unclean
		b = sequence.Beginning(from, "", x.All())
		_, begun = p.ResourceVersions[""]
		s.infers = from.Infers("")
		s.keep(x)
	}
	s.report = extent{b.Version, begun && !b.Moved || b.Version != "", rules.Partial, rules.Unclean, b.Rewound}
	s.state = protocol.Start(rules, b)
	return s
}

// position is Stream.Position.
func (s *session) position() *checkpoint.Position {
	p := &checkpoint.Position{
		ResourceVersions: map[string]string{}, Partial: s.report.partial, Rewound: s.report.rewound,
		Unclean: s.report.unclean,
	}
	if s.report.begun {
		p.ResourceVersions[""] = s.report.version
	}
	for _, e := range s.entries {
		p.Objects = append(p.Objects, checkpoint.Object{
			Name: names[e.name], UID: e.asUID(), ResourceVersion: s.asVersion(e.object).ResourceVersion})
	}
	return p
}

// differs reports whether a whole list differs from what was delivered.
func (s *session) differs(list []object) bool {
	x, n := s.index(), 0
	for _, o := range list {
		if s.selected(o) {
			if known, _ := x.Knows(s.asVersion(o)); !known {
				return true
			}
			n++
		}
	}
	return n != x.Len()
}

// page returns the Input for a page of a list.
func (s *session) page(r reply) protocol.Page {
	var x *index.Index
	first := s.state.(protocol.Listing).Token() == ""
	m, _ := protocol.Recall(s.state)
	sinks := first && protocol.Before(text(r.version), m.Version())
	if first {
		s.lastName = 0
	}
	if !first || sinks {
		x = s.index()
	}
	duplicate, newest, ahead, below := !first && len(r.objects) > 0, false, false, false
	for _, o := range r.objects {
		newest = newest || o.version == r.version
		ahead = ahead || o.version > r.version
		if sinks {
			_, older := x.Knows(s.asVersion(o))
			below = below || older
		}
		if o.name+1 > s.lastName {
			s.lastName, duplicate = o.name+1, false
		} else if !first && s.selected(o) && !x.Saw(s.asVersion(o).ID) {
			duplicate = false
		}
	}
	return protocol.Page{
		Version: text(r.version), Token: r.token.String(), Duplicate: duplicate, Empty: len(r.objects) == 0,
		Newest: newest, Ahead: ahead, Below: below, NoVersion: protocol.ErrNoVersion,
	}
}

// take takes an Input, which was made of a reply, and what a Worker makes of it: the first Frame shows that the watch
// Continues, and an event that can't be true is Contradicted.
func (s *session) take(in protocol.Input, r reply) error {
	if of, ok := s.state.(protocol.Streaming); ok && of.Unconfirmed() && confirms(of, in) {
		if err := s.step(protocol.Continues{}, reply{}); err != nil {
			return err
		}
		if _, on := s.state.(protocol.Streaming); !on {
			return nil
		}
	}
	err := s.step(in, r)
	if wrong := (*index.Contradiction)(nil); errors.As(err, &wrong) {
		return s.step(protocol.Contradicted{From: s.report.version, Cause: wrong}, reply{})
	}
	return err
}

// confirms reports whether a watch has sent something new, or has been open for a while.
func confirms(of protocol.Streaming, in protocol.Input) bool {
	switch in := in.(type) {
	case protocol.Frame:
		return of.ConfirmedBy(in)
	case protocol.Silent:
		return true
	case protocol.Closed:
		return in.After > 0
	}
	return false
}

// step takes an Input.
func (s *session) step(in protocol.Input, r reply) error {
	switch in.(type) {
	case protocol.Page, protocol.Opened:
		s.retained = nil // what an earlier request has left in the inbox
	}
	next, out := protocol.Step(s.state, in)
	m, lives := protocol.Recall(next)
	end, ended := next.(protocol.Stopped)
	if m.Rewound() || out.Gap.Reused || ended && end.Gap.Reason == protocol.GapRewound {
		s.report.rewound = true
	}
	if err := s.carry(out, r); err != nil {
		s.state = next
		return err
	}
	if partial, unclean, ok := m.Resumable(); lives && ok {
		s.report.reach(m.Version())
		s.report.partial, s.report.unclean = partial, unclean
	} else if protocol.Unresumable(&m) || ended && next.(protocol.Stopped).Gap.Reason == protocol.GapUnordered {
		s.report.version, s.report.begun = "", true
	}
	s.state = next
	return nil
}

// carry carries out Outputs.
func (s *session) carry(out protocol.Outputs, r reply) error {
	silent := out
	silent.NoInitialEvents, silent.Reached = nil, protocol.Reached{}
	if silent != (protocol.Outputs{}) {
		before := s.entries
		c := carrier{session: s, noted: &[]objects.Version{}}
		c.index = s.indexWith(func(e objects.Version, gone bool) {
			if gone {
				e.ResourceVersion = isGone
			}
			*c.noted = append(*c.noted, e)
		})
		err := c.carry(out, r)
		s.keep(c.index)
		if missed := c.unnoted(before); missed != nil {
			return missed
		}
		if err != nil {
			return err
		}
	}
	switch out.Reached.As {
	case protocol.Synced:
		s.report.rewound = false
		s.report.reach(out.Reached.Version)
		return s.emit(event{kind: sequence.Synced, version: out.Reached.Version})
	case protocol.Bookmark:
		s.report.reach(out.Reached.Version)
		return s.emit(event{kind: sequence.Bookmark, version: out.Reached.Version})
	}
	return nil
}

func (e *extent) reach(version string) {
	e.version = version
	e.begun = e.begun || version != ""
}

// emit delivers an event.
func (s *session) emit(ev event) error {
	ev.came = s.now
	if s.noting {
		ev.at = s.position()
	}
	s.receiver.receive(ev)
	if s.leaves == 0 {
		return nil
	}
	if s.leaves--; s.leaves == 0 {
		return errLeft
	}
	return nil
}

// index rebuilds the index from its entries.
func (s *session) index() *index.Index { return s.indexWith(nil) }

// indexWith does the same with an index that says what changes.
func (s *session) indexWith(changed func(e objects.Version, gone bool)) *index.Index {
	x := index.New(changed)
	enter := func(seen, stale bool) {
		for _, e := range s.entries {
			if e.seen && e.stale {
				panic(fmt.Sprintf("%v was seen before the server went back in time: must have been listed again", e))
			}
			if e.seen == seen && e.stale == stale {
				x.Enter(s.asVersion(e.object))
			}
		}
	}
	enter(false, true)
	x.Distrust()
	enter(false, false)
	x.BeginList()
	enter(true, false)
	return x
}

// keep takes the entries out of the index.
func (s *session) keep(x *index.Index) {
	var now []entry
	for _, e := range x.Entries() {
		now = append(now, entry{object: objectOf(e.Version), seen: e.Seen, stale: e.Stale})
	}
	s.entries = now
}
