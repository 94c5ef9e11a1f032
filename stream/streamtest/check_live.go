package streamtest

import (
	"fmt"
	"slices"

	"github.com/gvrwatch/gvrwatch/stream"
)

// live checks an event of the server. It must be the next change, or with Latest the next one of its object, and its
// type must say what the change means to the receiver.
func (s *source) live(cand *candidate, i int, ev stream.Event) *Violation {
	t, key := s.timelines[cand.epoch], keyOf(ev.Object)
	pos, happened := s.indexes[cand.epoch][changeKey{key, refOf(ev.Object), ev.Type != stream.Deleted}]
	switch {
	case !happened:
		return s.notAChange(cand, i, ev)
	case pos < max(cand.pos, cand.reached[key]):
		return s.tooLate(cand, i, ev)
	case !sameContent(t[pos].object, ev.Object):
		return s.violation(truthful, i, "the object never had this content")
	}
	if !s.opts.Latest {
		if e := s.missing(cand, pos); e != nil {
			promise, why := s.promiseOf(e.kind), " precedes it, and is missing"
			if s.follows(i, e) {
				promise, why = ordered, " precedes it"
			}
			return s.violation(promise, i, e.text()+why)
		}
		cand.pos = pos + 1
	}
	if v := s.checkType(cand, i, ev, t[pos].kind); v != nil {
		return v
	}
	cand.reached[key] = pos + 1
	cand.deliver(ev)
	return nil
}

// follows reports whether a change is delivered after event i.
func (s *source) follows(i int, e *entry) bool {
	return slices.ContainsFunc(s.events[i:], func(ev stream.Event) bool {
		return ev.Object != nil && !ev.Inferred && ev.Type == e.kind && keyOf(ev.Object) == e.key &&
			refOf(ev.Object) == e.ref
	})
}

// checkType checks the type of an event against what the receiver knows, or if it may not know the object, against
// the type of the change.
func (s *source) checkType(cand *candidate, i int, ev stream.Event, kind stream.Type) *Violation {
	key, uid := keyOf(ev.Object), ev.Object.GetUID()
	was, known := cand.known[key]
	promise, why := truthful, ""
	switch {
	case s.isPending(cand, ev):
	case known && was.uid != uid:
		promise, why = removed, fmt.Sprintf("the object with uid %q was known, and its removal is missing", was.uid)
	case ev.Type == stream.Added && known:
		why = "the object is known, so its change must be MODIFIED"
	case known:
	case s.undelivered(key):
		if ev.Type != kind && s.opts.Selected == nil && ev.Coalesced() == 0 {
			why = "the change was " + string(kind)
		}
	case ev.Type == stream.Modified:
		why = "the object is unknown, so it must be ADDED"
	case ev.Type == stream.Deleted:
		why = "the object is unknown"
	}
	if why == "" {
		return nil
	}
	return s.violation(promise, i, why)
}

// tooLate reports an event that belongs before others that were delivered.
func (s *source) tooLate(cand *candidate, i int, ev stream.Event) *Violation {
	repeats := func(old stream.Event) bool {
		return old.Type == ev.Type && old.Object != nil && keyOf(old.Object) == keyOf(ev.Object) &&
			refOf(old.Object) == refOf(ev.Object)
	}
	known := ev.Type == stream.Added && cand.known[keyOf(ev.Object)] == refOf(ev.Object)
	switch {
	case slices.ContainsFunc(s.events[:i], repeats), known && !s.resuming:
		return s.violation(unique, i, "it was delivered before")
	case s.resuming:
		return s.violation(resumed, i, "it precedes the position")
	}
	return s.violation(ordered, i, "later changes were delivered before it")
}

// notAChange reports an event that is not a change of its epoch.
func (s *source) notAChange(cand *candidate, i int, ev stream.Event) *Violation {
	key := keyOf(ev.Object)
	if s.existed(cand, ev) {
		return s.violation(monotonic, i, "the server went back in time before it, and no GAP says so")
	}
	was, known := cand.known[key]
	for _, e := range s.timelines[cand.epoch][cand.pos:] {
		switch {
		case e.key != key || e.kind == "" || e.ref.rv != ev.ResourceVersion:
		case ev.Type == stream.Deleted && e.kind == stream.Deleted:
			return s.violation(removed, i, fmt.Sprintf("the removed object had uid %q", e.ref.uid))
		case ev.Type == stream.Added && known && was.uid != ev.Object.GetUID():
			return s.violation(removed, i,
				fmt.Sprintf("the object with uid %q was known, and its removal is missing", was.uid))
		default:
			return s.violation(truthful, i, fmt.Sprintf("the change was %s, with uid %q", e.text(), e.ref.uid))
		}
	}
	return s.violation(truthful, i, "there was no such change"+s.in())
}

// replaced checks an inferred event without a GAP: the removal of an object that another one has replaced.
func (s *source) replaced(cand *candidate, i int, ev stream.Event) *Violation {
	t, key, uid := s.timelines[cand.epoch], keyOf(ev.Object), ev.Object.GetUID()
	if ev.Type == stream.Deleted && cand.known[key].uid == uid && identityOnly(ev.Object) {
		for pos := cand.pos; pos < len(t); pos++ {
			if t[pos].key == key && t[pos].exists && t[pos].ref.uid != uid {
				cand.reached[key] = pos
				cand.deliver(ev)
				return nil
			}
		}
	}
	return s.violation(announced, i, "inferred without a GAP before it")
}
