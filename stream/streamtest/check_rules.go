package streamtest

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/stream"
)

// live holds a world to an event of the server: a change that comes after what was
// delivered, and means to the receiver what its type says. Without Latest it is the
// next one, with Latest the next one of its object.
func (s *source) live(w *world, i int, ev stream.Event) *Violation {
	t, key := s.timelines[w.epoch], keyOf(ev.Object)
	pos, happened := s.indexes[w.epoch][changeKey{key, refOf(ev.Object), ev.Type != stream.Deleted}]
	switch {
	case !happened:
		return s.unheardOf(w, i, ev)
	case pos < max(w.pos, w.reached[key]):
		return s.late(w, i, ev)
	case !sameContent(t[pos].object, ev.Object):
		return s.violation(truthful, i, "the object was never like that")
	}
	if !s.opts.Latest {
		if e := s.missing(w, pos); e != nil {
			promise, why := s.absence(e.kind), " comes before it, and is missing"
			if s.follows(i, e) {
				promise, why = ordered, " comes before it"
			}
			return s.violation(promise, i, e.text()+why)
		}
		w.pos = pos + 1
	}
	if v := s.meaning(w, i, ev, t[pos].kind); v != nil {
		return v
	}
	w.reached[key] = pos + 1
	w.enter(ev)
	return nil
}

// follows says whether a change is delivered after event i.
func (s *source) follows(i int, e *entry) bool {
	return slices.ContainsFunc(s.events[i:], func(ev stream.Event) bool { return delivers(ev, e) })
}

// meaning holds the type of an event against what the receiver knows, and where that
// is not known against the type of the change.
func (s *source) meaning(w *world, i int, ev stream.Event, kind stream.Type) *Violation {
	key, uid := keyOf(ev.Object), ev.Object.GetUID()
	was, known := w.known[key]
	promise, why := truthful, ""
	switch {
	case s.isPending(w, ev):
	case known && was.uid != uid:
		promise, why = removed, fmt.Sprintf("the object with uid %q was there, and its removal is missing", was.uid)
	case ev.Type == stream.Added && known:
		why = "the object is known: a change of it is MODIFIED"
	case known:
	case s.obscure(key):
		if ev.Type != kind && s.opts.Selected == nil && ev.Coalesced == 0 {
			why = "what happened was " + string(kind)
		}
	case ev.Type == stream.Modified:
		why = "the object is not known: it is ADDED"
	case ev.Type == stream.Deleted:
		why = "the object is not known"
	}
	if why == "" {
		return nil
	}
	return s.violation(promise, i, why)
}

// late reports an event that belongs before what was delivered.
func (s *source) late(w *world, i int, ev stream.Event) *Violation {
	repeats := func(old stream.Event) bool {
		return old.Type == ev.Type && old.Object != nil && keyOf(old.Object) == keyOf(ev.Object) && refOf(old.Object) == refOf(ev.Object)
	}
	switch {
	case slices.ContainsFunc(s.events[:i], repeats), ev.Type == stream.Added && w.known[keyOf(ev.Object)] == refOf(ev.Object) && !s.resuming:
		return s.violation(unique, i, "it has been delivered before")
	case s.resuming:
		return s.violation(resumed, i, "the position was after it")
	}
	return s.violation(ordered, i, "what came after it has been delivered")
}

// unheardOf reports an event that is none of the changes of its epoch.
func (s *source) unheardOf(w *world, i int, ev stream.Event) *Violation {
	key := keyOf(ev.Object)
	if s.was(w, ev) {
		return s.violation(monotonic, i, "the server went back in time before it, and no GAP says so")
	}
	was, known := w.known[key]
	for _, e := range s.timelines[w.epoch][w.pos:] {
		switch {
		case e.key != key || e.kind == "" || e.ref.rv != ev.ResourceVersion:
		case ev.Type == stream.Deleted && e.kind == stream.Deleted:
			return s.violation(removed, i, fmt.Sprintf("it was the object with uid %q that was removed", e.ref.uid))
		case ev.Type == stream.Added && known && was.uid != ev.Object.GetUID():
			return s.violation(removed, i, fmt.Sprintf("the object with uid %q was there, and its removal is missing", was.uid))
		default:
			return s.violation(truthful, i, fmt.Sprintf("what happened was %s of uid %q", e.text(), e.ref.uid))
		}
	}
	return s.violation(truthful, i, "that never happened"+s.in())
}

// replaced holds a world to an inferred event without a GAP: the end of an object that
// another one has replaced.
func (s *source) replaced(w *world, i int, ev stream.Event) *Violation {
	t, key, uid := s.timelines[w.epoch], keyOf(ev.Object), ev.Object.GetUID()
	if ev.Type == stream.Deleted && w.known[key].uid == uid && identityOnly(ev.Object) && !s.opts.IndexNone {
		for pos := w.pos; pos < len(t); pos++ {
			if t[pos].key == key && t[pos].exists && t[pos].ref.uid != uid {
				w.reached[key] = pos
				w.enter(ev)
				return nil
			}
		}
	}
	return s.violation(announced, i, "it is inferred, but there was no GAP")
}

// mismarked says what is wrong with Inferred before SYNCED, if anything is. Several
// namespaces are live one by one before they are SYNCED, which does not show; and an
// event that stands for others is as the last one of them.
func (s *source) mismarked(ev stream.Event) string {
	switch added := ev.Type == stream.Added; {
	case s.joint(), ev.Coalesced > 0, s.opts.IndexNone && added:
	case s.phase == initial && s.opts.Now:
		return "what exists is not delivered before SYNCED if the start is now"
	case s.phase == initial && added && ev.Inferred:
		return "a first snapshot is not inferred"
	case s.phase == initial && !added && !ev.Inferred:
		return "it can't come from the server before SYNCED"
	case s.phase == gap && !ev.Inferred:
		return "before the SYNCED after a GAP all is inferred"
	}
	return ""
}

// difference holds a world to an event of a snapshot: it is new to the receiver, and
// was so at some time. Whether it still was at the end is for SYNCED to show.
func (s *source) difference(w *world, i int, ev stream.Event) *Violation {
	if ev.Type == stream.Deleted {
		return s.gone(w, i, ev)
	}
	key, now := keyOf(ev.Object), refOf(ev.Object)
	was, known := w.known[key]
	promise, why := truthful, ""
	switch {
	case known && was.uid != now.uid:
		promise, why = removed, fmt.Sprintf("the object with uid %q was there, and its removal is missing", was.uid)
	case known && was.rv == now.rv && ev.Coalesced == 0: // else it was otherwise in between
		promise, why = s.unchanged(ev)
	case known && ev.Type == stream.Added:
		why = "the object is known: a change of it is MODIFIED"
	case !known && ev.Type == stream.Modified && !s.unknown:
		why = "the object is not known: it is ADDED"
	case known && older(now.rv, was.rv) && !s.mayGoBack(w):
		promise, why = monotonic, "version "+was.rv+" of it is known"
	}
	for uid, name := range s.pending {
		if name == key && uid != now.uid && !known && !s.joint() {
			promise, why = removed, fmt.Sprintf("the object with uid %q may have been delivered, and its removal is missing", uid)
		}
	}
	if why == "" && !s.was(w, ev) {
		why = "there never was such an object, or it never was like that"
	}
	if why != "" {
		return s.violation(promise, i, why)
	}
	w.enter(ev)
	return nil
}

// unchanged says what is wrong with an object that is delivered once more as it was.
func (s *source) unchanged(ev stream.Event) (promise, why string) {
	switch index, ok := s.delivered[keyOf(ev.Object)]; {
	case ok && index > s.opened && s.events[index].Object.GetUID() == ev.Object.GetUID():
		return unique, "it has been delivered before"
	case s.rewound && ev.Type == stream.Added:
		return truthful, "the object is known: it is MODIFIED"
	case s.rewound:
		return truthful, "" // the version may have been that of something else, which is no more
	case s.resuming:
		return resumed, "the position knows it, with this version"
	}
	return announced, "it is as it was, and only differences follow a GAP"
}

// was says whether the object ever was as ev has it, or ended so. Of an inferred end
// only the identity is known.
func (s *source) was(w *world, ev stream.Event) bool {
	identity := ev.Type == stream.Deleted && ev.Inferred
	for epoch := w.epoch; epoch < len(s.timelines); epoch++ {
		pos, ok := s.indexes[epoch][changeKey{keyOf(ev.Object), refOf(ev.Object), ev.Type != stream.Deleted || identity}]
		if ok && (identity || sameContent(s.timelines[epoch][pos].object, ev.Object)) {
			return true
		}
	}
	return false
}

// gone holds a world to a removal before SYNCED.
func (s *source) gone(w *world, i int, ev stream.Event) *Violation {
	key, uid := keyOf(ev.Object), ev.Object.GetUID()
	was, known := w.known[key]
	pending := s.isPending(w, ev)
	obscure := !known && !pending && s.obscure(key)
	promise, why := truthful, ""
	switch {
	case s.opts.IndexNone && ev.Inferred:
		why = "without an index no removal can be inferred"
	case !known && !pending && !obscure:
		why = "the object is not known"
	case known && !pending && was.uid != uid:
		promise, why = removed, fmt.Sprintf("the object that is known has the uid %q", was.uid)
	case (obscure || !ev.Inferred) && !s.was(w, ev):
		why = "that never happened"
	case !ev.Inferred: // a namespace that is live before the SYNCED of all
	case known && !pending && was.rv != ev.ResourceVersion && ev.Coalesced == 0:
		why = "the version that is known is " + was.rv
	case !identityOnly(ev.Object):
		why = "of a removal that is inferred only the identity is known"
	case !s.absent(w, ev):
		why = "the object was never removed"
	}
	if why != "" {
		return s.violation(promise, i, why)
	}
	w.enter(ev)
	return nil
}

// absent says whether there was a time without the object of ev.
func (s *source) absent(w *world, ev stream.Event) bool {
	for epoch := w.epoch; epoch < len(s.timelines); epoch++ {
		from := w.pos
		if epoch > w.epoch || s.mayGoBack(w) {
			from = 0
		}
		if _, gone := s.timelines[epoch].lives(from, keyOf(ev.Object), ev.Object.GetUID()); gone {
			return true
		}
	}
	return false
}

// mayGoBack says whether states of the past can be right: where a GAP has said so, or
// the server went back and it did not show in its versions. If GAP.To already says
// that they are wrong, SYNCED is where to report it.
func (s *source) mayGoBack(w *world) bool {
	return s.rewound || older(s.to, s.cursor) || w.epoch < len(s.timelines)-1
}

// identityOnly says whether u holds no more than the identity of an object.
func identityOnly(u *unstructured.Unstructured) bool {
	metadata, _ := u.Object["metadata"].(map[string]any)
	return only(u.Object, "apiVersion", "kind", "metadata") && only(metadata, "namespace", "name", "uid", "resourceVersion")
}

func only(m map[string]any, keys ...string) bool {
	for k := range m {
		if !slices.Contains(keys, k) {
			return false
		}
	}
	return true
}
