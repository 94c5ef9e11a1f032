package streamtest

import (
	"fmt"

	"github.com/gvrwatch/gvrwatch/stream"
)

// live checks an event of the server: it is the next change, in some world.
func (s *source) live(i int, ev stream.Event) {
	var fit []world
	for _, w := range s.worlds {
		if pos, ok := s.next(w, ev); ok {
			w.pos = pos
			fit = append(fit, w)
		}
	}
	if len(fit) > 0 {
		s.worlds = fit
	} else if !s.astray(i, ev) {
		return
	}
	s.seen[seenOf(ev)] = true
	s.tell(i, ev)
	s.resuming = false
	if !older(ev.ResourceVersion, s.cursor) && !ev.Inferred {
		s.cursor = ev.ResourceVersion
	}
}

// next is the position after ev, if it is the next change to tell.
func (s *source) next(w world, ev stream.Event) (int, bool) {
	t := s.timelines[w.epoch]
	for pos := w.pos; pos < len(t); pos++ {
		e := t[pos]
		if ev.Inferred {
			// The end of an object that was replaced, which the server may have left out.
			if e.kind == stream.Deleted && e.key == keyOf(ev.Object) && e.ref.uid == ev.Object.GetUID() {
				return pos + 1, true
			}
		} else if s.is(w, e, ev) && sameContent(e.object, ev.Object) {
			return pos + 1, true
		}
		if e.kind != "" && !s.optional(w, e) {
			break
		}
	}
	return w.pos, ev.Inferred
}

// is compares all but the content.
func (s *source) is(w world, e *entry, ev stream.Event) bool {
	if e.key != keyOf(ev.Object) || e.ref != refOf(ev) {
		return false
	}
	if !s.lenient(w, e) {
		return e.kind == ev.Type
	}
	return e.exists != (ev.Type == stream.Deleted)
}

// lenient are the changes of objects of which the sequence can't know whether
// they were selected before.
func (s *source) lenient(w world, e *entry) bool {
	if s.opts.Selected == nil {
		return false
	}
	if s.opts.IndexNone {
		return true
	}
	_, told := s.told[e.key]
	_, known := w.base[e.key]
	return s.unknown && !told && !known
}

func (s *source) optional(w world, e *entry) bool { return s.lenient(w, e) && !e.exists }

// replaced says whether ev is the inferred end of an object that the next event
// replaces, which needs no GAP.
func (s *source) replaced(i int, ev stream.Event) bool {
	if ev.Type != stream.Deleted || s.opts.IndexNone {
		return false
	}
	for _, next := range s.events[i+1:] {
		if next.Type == stream.Synced || next.Namespace != s.namespace {
			continue // of another namespace, or for all of them
		}
		if next.Type != stream.Added || next.Inferred || next.Object == nil ||
			keyOf(next.Object) != keyOf(ev.Object) || next.Object.GetUID() == ev.Object.GetUID() {
			return false
		}
		for _, w := range s.worlds {
			if r, ok := s.lookup(w, keyOf(ev.Object)); ok && r == refOf(ev) && identityOnly(ev.Object) {
				return true
			}
		}
		return false
	}
	return false
}

// astray reports an event that no world had next, and says whether it was one
// that could be told. It goes on from where the event belongs.
func (s *source) astray(i int, ev stream.Event) bool {
	for j, k := range s.skipped {
		if e := k.entry; e.kind == ev.Type && e.key == keyOf(ev.Object) && e.ref == refOf(ev) {
			s.skipped = append(s.skipped[:j], s.skipped[j+1:]...)
			s.report(ErrOrder, i, "it was to come before "+textAt(s.events, k.index))
			if t, ok := s.told[e.key]; ok && t.exists && older(ev.ResourceVersion, t.rv) {
				return false // of this object a newer state is known
			}
			return true
		}
	}
	if s.seen[seenOf(ev)] && ev.ResourceVersion != "" {
		s.report(ErrRepeated, i, "it has been told before")
		return false
	}
	if w, pos, ok := s.later(func(w world, e *entry) bool { return s.is(w, e, ev) }); ok {
		if !sameContent(s.timelines[w.epoch][pos].object, ev.Object) {
			s.report(ErrInvented, i, "the object was never like that")
		}
		s.jump(i, w, pos)
		return true
	}
	if s.again(i, ev) {
		return false
	}
	if w, pos, ok := s.elsewhere(ev); ok {
		s.report(ErrBackInTime, i, "the server went back in time before it, and that was not told")
		s.worlds = []world{{epoch: w.epoch, pos: pos + 1, base: w.base}}
		return true
	}
	if w, pos, ok := s.later(func(_ world, e *entry) bool {
		return e.kind != "" && e.key == keyOf(ev.Object) && e.ref.rv != "" && e.ref.rv == ev.Object.GetResourceVersion()
	}); ok {
		return s.distorted(i, ev, w, pos)
	}
	s.report(ErrInvented, i, "that never happened"+s.in())
	return false
}

// again reports what belongs before the present position.
func (s *source) again(i int, ev stream.Event) bool {
	if ev.Object.GetResourceVersion() == "" {
		return false
	}
	for _, w := range s.worlds {
		for pos, e := range s.timelines[w.epoch] {
			if pos >= w.pos || e.key != keyOf(ev.Object) || e.ref != refOf(ev) || e.kind != ev.Type {
				continue
			}
			r, ok := s.lookup(w, e.key)
			switch {
			case s.resuming:
				s.report(ErrResumed, i, "the position was after it")
			case ok && r == e.ref && ev.Type == stream.Added:
				s.report(ErrRepeated, i, "the object is known, with this version")
			default:
				s.report(ErrOrder, i, "what came after it has been told")
			}
			return true
		}
	}
	return false
}

// later looks for a change from the present on.
func (s *source) later(match func(world, *entry) bool) (world, int, bool) {
	for _, w := range s.worlds {
		t := s.timelines[w.epoch]
		for pos := w.pos; pos < len(t); pos++ {
			if match(w, t[pos]) {
				return w, pos, true
			}
		}
	}
	return world{}, 0, false
}

// elsewhere looks for an event in the epochs that no world has reached.
func (s *source) elsewhere(ev stream.Event) (world, int, bool) {
	for _, w := range s.worlds {
		for epoch := w.epoch + 1; epoch < len(s.timelines); epoch++ {
			for pos, e := range s.timelines[epoch] {
				if s.is(w, e, ev) && sameContent(e.object, ev.Object) {
					return world{epoch: epoch, pos: pos, base: w.base}, pos, true
				}
			}
		}
	}
	return world{}, 0, false
}

// jump goes on after pos, and remembers what it leaves out.
func (s *source) jump(i int, w world, pos int) {
	for _, e := range s.due(w, pos) {
		s.skipped = append(s.skipped, skip{entry: e, index: i, promise: s.absence(e.kind)})
	}
	w.pos = pos + 1
	s.worlds = []world{w}
}

// distorted reports an event that has the name and the version of a change, but
// is not that.
func (s *source) distorted(i int, ev stream.Event, w world, pos int) bool {
	e := s.timelines[w.epoch][pos]
	was, known := s.lookup(w, e.key)
	switch {
	case ev.Type == stream.Deleted && e.kind == stream.Deleted:
		s.report(ErrRemoval, i, fmt.Sprintf("it was the object with uid %q that was removed", e.ref.uid))
	case ev.Type == stream.Added && known && was.uid != ev.Object.GetUID():
		s.report(ErrRemoval, i, fmt.Sprintf("the object with uid %q was there, and its removal was not told", was.uid))
	default:
		s.report(ErrInvented, i, fmt.Sprintf("what happened was %s of uid %q", e.text(), e.ref.uid))
	}
	s.jump(i, w, pos)
	// What follows builds on what happened.
	s.told[e.key] = told{ref: e.ref, exists: e.exists, index: i}
	s.resuming = false
	return false
}

func seenOf(ev stream.Event) seenKey {
	return seenKey{kind: ev.Type, key: keyOf(ev.Object), ref: refOf(ev)}
}
