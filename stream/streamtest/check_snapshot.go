package streamtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// mismarked says what is wrong with Inferred before SYNCED. It accepts anything if there are several namespaces, each
// of which is live at a time that the events do not show, and for coalesced events, which have the mark of the last of
// them.
func (s *source) mismarked(ev stream.Event) string {
	switch added := ev.Type == stream.Added; {
	case s.joint(), ev.Coalesced() > 0:
	case s.phase == inSnapshot && s.opts.Now:
		return "a start at now delivers nothing before SYNCED"
	case s.phase == inSnapshot && added && ev.Inferred:
		return "the first snapshot must not be inferred"
	case s.phase == inSnapshot && !added && !ev.Inferred:
		return "no watch event may come before SYNCED"
	case s.phase == inGap && !ev.Inferred:
		return "after a GAP all events must be inferred until SYNCED"
	}
	return ""
}

// difference checks an event before SYNCED: it must be news to the receiver, and true at some time. Whether it still
// was true at the end is checked at SYNCED.
func (s *source) difference(cand *candidate, i int, ev stream.Event) *Violation {
	if ev.Type == stream.Deleted {
		return s.removal(cand, i, ev)
	}
	key, now := keyOf(ev.Object), refOf(ev.Object)
	was, known := cand.known[key]
	promise, why := truthful, ""
	switch {
	case known && was.uid != now.uid:
		promise, why = removed, fmt.Sprintf("the object with uid %q was known, and its removal is missing", was.uid)
	case known && was.rv == now.rv && ev.Coalesced() == 0: // a coalesced event had other states in between
		promise, why = s.unchanged(ev)
	case known && ev.Type == stream.Added:
		why = "the object is known, so its change must be MODIFIED"
	case !known && ev.Type == stream.Modified && !s.unknown:
		why = "the object is unknown, so it must be ADDED"
	case known && older(now.rv, was.rv) && !s.mayGoBack(cand):
		promise, why = monotonic, "its version "+was.rv+" is known"
	}
	for uid, name := range s.pending {
		if name == key && uid != now.uid && !known && !s.joint() {
			promise, why = removed,
				fmt.Sprintf("the object with uid %q may have been delivered, and its removal is missing", uid)
		}
	}
	if why == "" && !s.existed(cand, ev) {
		why = "there was no such object, or it never had this content"
	}
	if why != "" {
		return s.violation(promise, i, why)
	}
	cand.deliver(ev)
	return nil
}

// unchanged says what is wrong with delivering the known state of an object again.
func (s *source) unchanged(ev stream.Event) (promise, why string) {
	switch index, ok := s.delivered[keyOf(ev.Object)]; {
	case ok && index > s.opened && s.events[index].Object.GetUID() == ev.Object.GetUID():
		return unique, "it was delivered before"
	case s.rewound && ev.Type == stream.Added:
		return truthful, "the object is known, so it must be MODIFIED"
	case s.rewound:
		return truthful, "" // the known state may be one that the rewind has undone
	case s.resuming:
		return resumed, "the position has the object at this version"
	}
	return announced, "the object is unchanged, and only differences may follow a GAP"
}

// existed reports whether the object ever had the state in ev, or for a DELETED, was removed in that state. Of an
// inferred removal only the identity counts.
func (s *source) existed(cand *candidate, ev stream.Event) bool {
	identity := ev.Type == stream.Deleted && ev.Inferred
	for epoch := cand.epoch; epoch < len(s.timelines); epoch++ {
		key := changeKey{keyOf(ev.Object), refOf(ev.Object), ev.Type != stream.Deleted || identity}
		pos, ok := s.indexes[epoch][key]
		if ok && (identity || sameContent(s.timelines[epoch][pos].object, ev.Object)) {
			return true
		}
	}
	return false
}

// removal checks a DELETED before SYNCED.
func (s *source) removal(cand *candidate, i int, ev stream.Event) *Violation {
	key, uid := keyOf(ev.Object), ev.Object.GetUID()
	was, known := cand.known[key]
	pending := s.isPending(cand, ev)
	undelivered := !known && !pending && s.undelivered(key)
	promise, why := truthful, ""
	switch {
	case !known && !pending && !undelivered:
		why = "the object is unknown"
	case known && !pending && was.uid != uid:
		promise, why = removed, fmt.Sprintf("the known object has uid %q", was.uid)
	case (undelivered || !ev.Inferred) && !s.existed(cand, ev):
		why = "there was no such change"
	case !ev.Inferred: // of a namespace that is live before the SYNCED of all
	case known && !pending && was.rv != ev.ResourceVersion && ev.Coalesced() == 0:
		why = "the known version is " + was.rv
	case !identityOnly(ev.Object):
		why = "an inferred removal must carry the identity only"
	case !s.wasAbsent(cand, ev):
		why = "the object was never removed"
	}
	if why != "" {
		return s.violation(promise, i, why)
	}
	cand.deliver(ev)
	return nil
}

// wasAbsent reports whether there was a time without the object of ev.
func (s *source) wasAbsent(cand *candidate, ev stream.Event) bool {
	for epoch := cand.epoch; epoch < len(s.timelines); epoch++ {
		from := cand.pos
		if epoch > cand.epoch || s.mayGoBack(cand) {
			from = 0
		}
		if _, absent := s.timelines[epoch].presence(from, keyOf(ev.Object), ev.Object.GetUID()); absent {
			return true
		}
	}
	return false
}

// mayGoBack reports whether past states can be correct: a GAP said that the server went back, or it did so without
// a trace in its versions. If GAP.To already proves them wrong, that is reported at SYNCED.
func (s *source) mayGoBack(cand *candidate) bool {
	return s.rewound || older(s.to, s.cursor) || cand.epoch < len(s.timelines)-1
}

// identityOnly reports whether u holds nothing but the identity of an object.
func identityOnly(u *unstructured.Unstructured) bool {
	metadata, _ := u.Object["metadata"].(map[string]any)
	return hasOnly(u.Object, "apiVersion", "kind", "metadata") &&
		hasOnly(metadata, "namespace", "name", "uid", "resourceVersion")
}

func hasOnly(m map[string]any, keys ...string) bool {
	for k := range m {
		if !slices.Contains(keys, k) {
			return false
		}
	}
	return true
}

// synced compares what was delivered with the state at the version of SYNCED, or at any version if it has none, in each
// epoch that is possible.
func (s *source) synced(i int, rv string) *Violation {
	if !s.rewound {
		for _, seen := range []string{s.cursor, s.to} {
			if older(rv, seen) {
				return s.violation(monotonic, i, "everything up to "+seen+" was delivered before")
			}
		}
	}
	var fit []*candidate
	var nearest []*Violation
	for _, cand := range s.candidates {
		for epoch := cand.epoch; epoch < len(s.timelines); epoch++ {
			t := s.timelines[epoch]
			from, to := t.position(rv), t.position(rv)
			if rv == "" {
				from, to = 0, len(t)
			}
			if rv == "" && epoch == cand.epoch && !s.rewound {
				from = cand.pos
			}
			t.states(from, to, func(pos int, at state) {
				next := &candidate{epoch: epoch, pos: pos, reached: map[types.NamespacedName]int{}}
				if slices.ContainsFunc(fit, func(o *candidate) bool { return o.epoch == epoch && o.pos == pos }) {
					return
				}
				all := s.mismatches(i, cand, next, at)
				if len(all) == 0 {
					next.known = maps.Clone(at)
					fit = append(fit, next)
				} else if nearest == nil || len(all) < len(nearest) {
					nearest = all
				}
			})
		}
	}
	if len(fit) == 0 {
		return nearest[0]
	}
	if v := s.unresolved(i); v != nil {
		return v
	}
	s.candidates = fit
	s.segment = segment{phase: isLive, cursor: rv, delivered: map[types.NamespacedName]int{}, opened: i}
	s.start = start{}
	return nil
}

// mismatches compares what is known in cand with at, the state in next.
func (s *source) mismatches(i int, cand, next *candidate, at state) []*Violation {
	if maps.Equal(cand.known, at) {
		return nil
	}
	all := maps.Clone(cand.known)
	maps.Copy(all, at)
	var found []*Violation
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		if v := s.mismatch(i, cand, next, key, at); v != nil {
			found = append(found, v)
		}
	}
	return found
}

func (s *source) mismatch(i int, cand, next *candidate, key types.NamespacedName, at state) *Violation {
	have, known := cand.known[key]
	want, exists := at[key]
	index, delivered := s.delivered[key]
	here := delivered && index > s.opened // in this snapshot
	switch {
	case have == want:
		return nil
	case !known && s.opts.Now && s.undelivered(key):
		return nil
	case !known && s.undelivered(key) && s.timelines[cand.epoch].at(cand.pos)[key] == want:
		return nil // from before the start, and unchanged
	case !known && here && s.events[index].Object.GetUID() == want.uid:
		return s.violation(truthful, index, "the object existed at SYNCED")
	case !known:
		return s.violation(s.promiseOf(stream.Added), i,
			fmt.Sprintf("%s@%s existed, and is missing", key.Name, want.rv))
	case exists && have.uid != want.uid:
		why := fmt.Sprintf("%s existed with uid %q, and was delivered with uid %q", key.Name, want.uid, have.uid)
		return s.violation(s.promiseOf(stream.Deleted), i, why)
	case exists && here && older(want.rv, have.rv):
		return s.violation(truthful, index, "the object was at version "+want.rv+" at SYNCED")
	case exists:
		why := fmt.Sprintf("%s was at version %s, and was delivered at version %s", key.Name, want.rv, have.rv)
		return s.violation(s.promiseOf(stream.Modified), i, why)
	case here && !s.wasPresent(cand, next, key, have.uid):
		return s.violation(truthful, index, "the object did not exist at SYNCED")
	}
	why := fmt.Sprintf("%s with uid %q was removed, and its DELETED is missing", key.Name, have.uid)
	return s.violation(s.promiseOf(stream.Deleted), i, why)
}

// wasPresent reports whether the object existed at any time in the gap before next.
func (s *source) wasPresent(cand, next *candidate, key types.NamespacedName, uid types.UID) bool {
	from := cand.pos
	if next.epoch > cand.epoch || s.mayGoBack(cand) {
		from = 0
	}
	present, _ := s.timelines[next.epoch][:next.pos].presence(min(from, next.pos), key, uid)
	return present
}
