package streamtest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gvrwatch/gvrwatch/stream"
)

// latest checks an event of the server where those that were superseded may be
// missing: it is a change that comes after what was told, in some world, and means
// to the receiver what its type says. What is passed over must have been
// superseded by a change that comes after it.
func (s *source) latest(i int, ev stream.Event) {
	var fit []world
	var first *problem
	for _, w := range s.worlds {
		pos, p := s.nextLatest(w, ev)
		if p == nil {
			w.pos = pos
			fit = append(fit, w)
		} else if first == nil {
			first = p
		}
	}
	if len(fit) == 0 {
		if s.seen[seenOf(ev)] && ev.ResourceVersion != "" {
			first = &problem{ErrRepeated, "it has been told before"}
		}
		s.report(first.promise, i, first.why)
	} else {
		s.worlds = fit
	}
	s.seen[seenOf(ev)] = true
	s.tell(i, ev)
	s.resuming = false
	if !older(ev.ResourceVersion, s.cursor) && !ev.Inferred {
		s.cursor = ev.ResourceVersion
	}
}

// nextLatest is the position after ev.
func (s *source) nextLatest(w world, ev stream.Event) (int, *problem) {
	t, key := s.timelines[w.epoch], keyOf(ev.Object)
	if p := s.meaning(w, ev); p != nil {
		return 0, p
	}
	if ev.Inferred { // the end of an object that another one has replaced
		return w.pos, nil
	}
	for pos := w.pos; pos < len(t); pos++ {
		e := t[pos]
		if e.key != key || e.ref != refOf(ev) || e.exists != (ev.Type != stream.Deleted) {
			continue
		}
		if !sameContent(e.object, ev.Object) {
			return 0, &problem{ErrInvented, "the object was never like that"}
		}
		if missing := s.passedOver(w, pos); missing != nil {
			return 0, &problem{s.absence(missing.kind), missing.text() + " comes before it, was the last of its object, and was not told"}
		}
		return pos + 1, nil
	}
	for _, e := range t[:min(w.pos, len(t))] {
		if e.key == key && e.ref == refOf(ev) {
			return 0, &problem{ErrOrder, "what came after it has been told"}
		}
	}
	return 0, &problem{ErrInvented, "that never happened" + s.in()}
}

// meaning holds the type of an event against what the receiver knows.
func (s *source) meaning(w world, ev stream.Event) *problem {
	was, known := s.lookup(w, keyOf(ev.Object))
	same := known && was.uid == ev.Object.GetUID()
	switch {
	case s.unknown || s.opts.IndexNone && s.opts.Selected != nil:
		return nil
	case known && !same:
		return &problem{ErrRemoval, fmt.Sprintf("the object with uid %q was there, and its removal was not told", was.uid)}
	case ev.Type == stream.Added && known:
		return &problem{ErrInvented, "the object is known: a change of it is MODIFIED"}
	case ev.Type == stream.Modified && !known:
		return &problem{ErrInvented, "the object is not known: it is ADDED"}
	case ev.Type == stream.Deleted && !known:
		if s.wasUnacked(ev) {
			return nil
		}
		return &problem{ErrInvented, "the object is not known"}
	}
	return nil
}

// passedOver finds a change from w to pos that nothing superseded.
func (s *source) passedOver(w world, pos int) *entry {
	t := s.timelines[w.epoch]
	for i := w.pos; i < pos; i++ {
		e := t[i]
		if e.kind == "" || s.optional(w, e) {
			continue
		}
		superseded := slices.ContainsFunc(t[i+1:], func(l *entry) bool { return l.kind != "" && l.key == e.key })
		if _, known := s.lookup(w, e.key); !superseded && (e.exists || known) {
			return e
		}
	}
	return nil
}

// replacedSometime says whether ev is the inferred end of an object that another
// one has replaced, which may be told later, or not at all.
func (s *source) replacedSometime(ev stream.Event) bool {
	if !s.opts.Latest || ev.Type != stream.Deleted || s.opts.IndexNone || !identityOnly(ev.Object) {
		return false
	}
	key := keyOf(ev.Object)
	for _, w := range s.worlds {
		if r, ok := s.lookup(w, key); !ok || r.uid != ev.Object.GetUID() {
			continue
		}
		if _, gone := s.timelines[w.epoch].lives(w.pos, key, ev.Object.GetUID()); gone {
			return true
		}
	}
	return false
}

// latestUpTo checks the claim that everything up to rv has been told, as far as
// it has not been superseded by then.
func (s *source) latestUpTo(i int, rv, claim string) {
	positions := map[int]int{} // by epoch
	for _, w := range s.worlds {
		pos, ok := s.timelines[w.epoch].position(rv)
		if !ok {
			return
		}
		positions[w.epoch] = pos
	}
	s.addsUp(i, positions, claim+" says that everything up to "+rv+" has been told")
}

// addsUp checks that what is known is what existed at a position in some world, and
// keeps those where it is.
func (s *source) addsUp(i int, positions map[int]int, claim string) {
	if s.unknown || s.opts.IndexNone && s.opts.Selected != nil {
		return // not all that exists needs to be known
	}
	var fit []world
	for _, w := range s.worlds {
		if pos, ok := positions[w.epoch]; ok && s.agree(w, pos) {
			w.pos = max(w.pos, pos)
			fit = append(fit, w)
		}
	}
	if len(fit) > 0 {
		s.worlds = fit
		return
	}
	for _, w := range s.worlds {
		if pos, ok := positions[w.epoch]; ok {
			s.reportDifference(i, w, pos, claim)
			return
		}
	}
}

// agree says whether what is known is what existed. Where a sequence goes on from
// a position, what it has told nothing of may be older than that: its change was
// superseded in the run before, and what superseded it follows. And what came and
// went in that run need not be known at the version in between.
func (s *source) agree(w world, pos int) bool {
	t := s.timelines[w.epoch]
	known, at := s.known(w), t.at(pos)
	if s.opts.From == nil {
		return known.equal(at)
	}
	for key := range known {
		if _, ok := at[key]; !ok {
			return false
		}
	}
	for key, want := range at {
		have, ok := known[key]
		_, told := s.told[key]
		switch {
		case have == want:
		case told:
			return false
		case !ok:
			if _, gone := t.lives(pos, key, want.uid); !gone {
				return false
			}
		case have.uid != want.uid || !older(have.rv, want.rv):
			return false
		}
	}
	return true
}

func (s *source) reportDifference(i int, w world, pos int, claim string) {
	at := s.timelines[w.epoch].at(pos)
	for _, key := range sorted(s.known(w), at) {
		have, ok := s.lookup(w, key)
		want, exists := at[key]
		switch {
		case ok == exists && have == want:
		case ok && !exists:
			s.report(s.absence(stream.Deleted), i, fmt.Sprintf("%s, and %s was gone%s", claim, key.Name, s.in()))
		default:
			s.report(s.absence(stream.Modified), i, fmt.Sprintf("%s, and %s@%s was not%s", claim, key.Name, want.rv, s.in()))
		}
	}
	w.pos, w.base = max(w.pos, pos), maps.Clone(at)
	s.worlds = []world{w}
	clear(s.told)
}
