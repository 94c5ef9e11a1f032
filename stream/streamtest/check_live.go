package streamtest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// rules say whether an event may follow. They change nothing but the candidate for which they are asked.
type rules struct {
	seq     *sequence
	past    *past
	start   *start
	segment *segment
}

// live checks an event of the server. It must be the next change, or with Latest the next one of its object, and its
// type must say what the change means to the receiver.
func (r rules) live(cand *candidate, i int, ev stream.Event) *Violation {
	t, key := r.past.timelines[cand.epoch], keyOf(ev.Object)
	pos, happened := r.past.indexes[cand.epoch][changeKey{key, refOf(ev.Object), ev.Type != stream.Deleted}]
	switch {
	case !happened:
		return r.notAChange(cand, i, ev)
	case pos < max(cand.pos, cand.reached[key]):
		return r.tooLate(cand, i, ev)
	case !sameContent(t[pos].object, ev.Object):
		return r.seq.violation(truthful, i, "the object never had this content")
	}
	if !r.seq.opts.Latest {
		if e := r.missing(cand, pos); e != nil {
			promise, why := r.start.promiseOf(e.kind), " precedes it, and is missing"
			if r.seq.follows(i, e) {
				promise, why = ordered, " precedes it"
			}
			return r.seq.violation(promise, i, e.text()+why)
		}
		cand.pos = pos + 1
	}
	if v := r.checkType(cand, i, ev, t[pos].kind); v != nil {
		return v
	}
	cand.reached[key] = pos + 1
	cand.deliver(ev)
	return nil
}

// mustBeAdded is what is wrong with MODIFIED of a pending object.
const mustBeAdded = "it is unknown whether the object was delivered, so it must be ADDED"

// checkType checks the type of an event against what the receiver knows, or if it may not know the object, against
// the type of the change.
func (r rules) checkType(cand *candidate, i int, ev stream.Event, kind stream.Type) *Violation {
	key, uid := keyOf(ev.Object), ev.Object.GetUID()
	was, known := cand.known[key]
	promise, why := truthful, ""
	switch {
	case r.start.isPending(cand, ev):
	case known && was.uid != uid:
		promise, why = removed, fmt.Sprintf("the object with uid %q was known, and its removal is missing", was.uid)
	case ev.Type == stream.Added && known:
		why = "the object is known, so its change must be MODIFIED"
	case known:
	case r.start.mayBeKnown(ev):
		if ev.Type == stream.Modified {
			why = mustBeAdded
		}
	case r.undelivered(key):
		if ev.Type != kind && r.seq.opts.Selected == nil && ev.Coalesced() == 0 {
			why = "the change was " + string(kind)
		}
	case ev.Type == stream.Modified:
		why = "the object is unknown, so it must be ADDED"
	case ev.Type == stream.Deleted:
		why = "the object is unknown"
	}
	return r.seq.violation(promise, i, why)
}

// tooLate reports an event that belongs before others that were delivered.
func (r rules) tooLate(cand *candidate, i int, ev stream.Event) *Violation {
	repeats := func(old stream.Event) bool {
		return old.Type == ev.Type && old.Object != nil && keyOf(old.Object) == keyOf(ev.Object) &&
			refOf(old.Object) == refOf(ev.Object)
	}
	known := ev.Type == stream.Added && cand.known[keyOf(ev.Object)] == refOf(ev.Object)
	switch {
	case slices.ContainsFunc(r.seq.events[:i], repeats), known && !r.start.resuming:
		return r.seq.violation(unique, i, "it was delivered before")
	case r.start.resuming:
		return r.seq.violation(resumed, i, "it precedes the position")
	}
	return r.seq.violation(ordered, i, "later changes were delivered before it")
}

// notAChange reports an event that is not a change of its epoch.
func (r rules) notAChange(cand *candidate, i int, ev stream.Event) *Violation {
	key := keyOf(ev.Object)
	if r.past.existed(cand.epoch, ev) {
		return r.seq.violation(monotonic, i, "the server went back in time before it, and no GAP says so")
	}
	was, known := cand.known[key]
	for _, e := range r.past.timelines[cand.epoch][cand.pos:] {
		switch {
		case e.key != key || e.kind == "" || e.ref.rv != ev.ResourceVersion:
		case ev.Type == stream.Deleted && e.kind == stream.Deleted:
			return r.seq.violation(removed, i, fmt.Sprintf("the removed object had uid %q", e.ref.uid))
		case ev.Type == stream.Added && known && was.uid != ev.Object.GetUID():
			return r.seq.violation(removed, i,
				fmt.Sprintf("the object with uid %q was known, and its removal is missing", was.uid))
		default:
			return r.seq.violation(truthful, i, fmt.Sprintf("the change was %s, with uid %q", e.text(), e.ref.uid))
		}
	}
	return r.seq.violation(truthful, i, "there was no such change"+r.past.in())
}

// replaced checks an inferred event without a GAP: the removal of an object that another one has replaced.
func (r rules) replaced(cand *candidate, i int, ev stream.Event) *Violation {
	t, key, uid := r.past.timelines[cand.epoch], keyOf(ev.Object), ev.Object.GetUID()
	if ev.Type == stream.Deleted && cand.known[key].uid == uid && identityOnly(ev.Object) {
		for pos := cand.pos; pos < len(t); pos++ {
			if t[pos].key == key && t[pos].exists && t[pos].ref.uid != uid {
				cand.reached[key] = pos
				cand.deliver(ev)
				return nil
			}
		}
	}
	return r.seq.violation(announced, i, "inferred without a GAP before it")
}

// missing returns the first change up to pos that was due and not delivered. With Latest only the last change of an
// object is due, and only if the object is known otherwise.
func (r rules) missing(cand *candidate, pos int) *entry {
	t := r.past.timelines[cand.epoch]
	last := map[types.NamespacedName]*entry{}
	between := t[min(cand.pos, pos):pos]
	for i, e := range between {
		_, known := cand.known[e.key]
		switch {
		case e.kind == "" || cand.pos+i < cand.reached[e.key]:
		case !known && r.seq.opts.Latest && (!e.exists || t.ends(pos, e)):
			delete(last, e.key) // it came and went
		case !known && !e.exists && (r.seq.opts.Selected != nil || !r.undelivered(e.key)): // an unknown object ended
		case !r.seq.opts.Latest:
			return e
		default:
			last[e.key] = e
		}
	}
	for _, e := range between {
		if last[e.key] == e {
			return e
		}
	}
	return nil
}

// undelivered reports whether the sequence may know an object of that name without having delivered it.
func (r rules) undelivered(key types.NamespacedName) bool {
	_, ok := r.segment.delivered[key]
	return r.start.unknown && !ok
}
