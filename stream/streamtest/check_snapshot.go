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
func (r rules) mismarked(ev stream.Event) string {
	switch added := ev.Type == stream.Added; {
	case r.seq.joint(), ev.Coalesced() > 0:
	case r.segment.phase == inSnapshot && r.seq.opts.Now:
		return "a start at now delivers nothing before SYNCED"
	case r.segment.phase == inSnapshot && added && ev.Inferred:
		return "the first snapshot must not be inferred"
	case r.segment.phase == inSnapshot && !added && !ev.Inferred:
		return "no watch event may come before SYNCED"
	case r.segment.phase == inGap && !ev.Inferred:
		return "differences must be inferred until SYNCED"
	}
	return ""
}

// difference checks an event before SYNCED: it must be news to the receiver, and true at some time. Whether it still
// was true at the end is checked at SYNCED.
func (r rules) difference(cand *candidate, i int, ev stream.Event) *Violation {
	if ev.Type == stream.Deleted {
		return r.removal(cand, i, ev)
	}
	key, now := keyOf(ev.Object), refOf(ev.Object)
	was, known := cand.known[key]
	promise, why := truthful, ""
	switch {
	case known && was.uid != now.uid:
		promise, why = removed, fmt.Sprintf("the object with uid %q was known, and its removal is missing", was.uid)
	case known && was.rv == now.rv && ev.Coalesced() == 0: // a coalesced event had other states in between
		promise, why = r.unchanged(ev)
	case known && ev.Type == stream.Added:
		why = "the object is known, so its change must be MODIFIED"
	case !known && ev.Type == stream.Modified && r.start.mayBeKnown(ev):
		why = mustBeAdded
	case !known && ev.Type == stream.Modified && !r.start.unknown:
		why = "the object is unknown, so it must be ADDED"
	case known && older(now.rv, was.rv) && !r.mayGoBack(cand):
		promise, why = monotonic, "its version "+was.rv+" is known"
	}
	for uid, name := range r.start.pending {
		if name == key && uid != now.uid && !known && !r.seq.joint() {
			promise, why = removed,
				fmt.Sprintf("the object with uid %q may have been delivered, and its removal is missing", uid)
		}
	}
	if why == "" && !r.past.existed(cand.epoch, ev) {
		why = "there was no such object, or it never had this content"
	}
	v := r.seq.violation(promise, i, why)
	if v == nil {
		cand.deliver(ev)
	}
	return v
}

// unchanged says what is wrong with delivering the known state of an object again.
func (r rules) unchanged(ev stream.Event) (promise, why string) {
	switch index, ok := r.segment.delivered[keyOf(ev.Object)]; {
	case ok && index > r.segment.opened && r.seq.events[index].Object.GetUID() == ev.Object.GetUID():
		return unique, "it was delivered before"
	case r.segment.rewound && ev.Type == stream.Added:
		return truthful, "the object is known, so it must be MODIFIED"
	case r.segment.rewound:
		return truthful, "" // the known state may be one that the rewind has undone
	case r.start.resuming:
		return resumed, "the position has the object at this version"
	}
	return announced, "the object is unchanged, and only differences may follow a GAP"
}

// removal checks a DELETED before SYNCED.
func (r rules) removal(cand *candidate, i int, ev stream.Event) *Violation {
	key, uid := keyOf(ev.Object), ev.Object.GetUID()
	was, known := cand.known[key]
	pending := r.start.isPending(cand, ev)
	undelivered := !known && !pending && r.undelivered(key)
	promise, why := truthful, ""
	switch {
	case !known && !pending && !undelivered:
		why = "the object is unknown"
	case known && !pending && was.uid != uid:
		promise, why = removed, fmt.Sprintf("the known object has uid %q", was.uid)
	case (undelivered || !ev.Inferred) && !r.past.existed(cand.epoch, ev):
		why = "there was no such change"
	case !ev.Inferred: // of a namespace that is live before the SYNCED of all
	case known && !pending && was.rv != ev.ResourceVersion && ev.Coalesced() == 0:
		why = "the known version is " + was.rv
	case !identityOnly(ev.Object):
		why = "an inferred removal must carry the identity only"
	case !r.wasAbsent(cand, ev):
		why = "the object was never removed"
	}
	v := r.seq.violation(promise, i, why)
	if v == nil {
		cand.deliver(ev)
	}
	return v
}

// wasAbsent reports whether there was a time without the object of ev.
func (r rules) wasAbsent(cand *candidate, ev stream.Event) bool {
	for epoch := cand.epoch; epoch < len(r.past.timelines); epoch++ {
		from := cand.pos
		if epoch > cand.epoch || r.mayGoBack(cand) {
			from = 0
		}
		if _, absent := r.past.timelines[epoch].presence(from, keyOf(ev.Object), ev.Object.GetUID()); absent {
			return true
		}
	}
	return false
}

// mayGoBack reports whether past states can be correct: a GAP said that the server went back, or it did so without
// a trace in its versions. If GAP.To already proves them wrong, that is reported at SYNCED.
func (r rules) mayGoBack(cand *candidate) bool {
	return r.segment.rewound || older(r.segment.to, r.segment.cursor) || cand.epoch < len(r.past.timelines)-1
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

// mismatches compares what is known in cand with at, the state in next.
func (r rules) mismatches(i int, cand, next *candidate, at state) []*Violation {
	if maps.Equal(cand.known, at) {
		return nil
	}
	all := maps.Clone(cand.known)
	maps.Copy(all, at)
	var found []*Violation
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		if v := r.mismatch(i, cand, next, key, at); v != nil {
			found = append(found, v)
		}
	}
	return found
}

func (r rules) mismatch(i int, cand, next *candidate, key types.NamespacedName, at state) *Violation {
	have, known := cand.known[key]
	want, exists := at[key]
	index, delivered := r.segment.delivered[key]
	here := delivered && index > r.segment.opened // in this snapshot
	switch {
	case have == want:
		return nil
	case !known && r.seq.opts.Now && r.undelivered(key):
		return nil
	case !known && r.undelivered(key) && r.past.timelines[cand.epoch].at(cand.pos)[key] == want:
		return nil // from before the start, and unchanged
	case !known && here && r.seq.events[index].Object.GetUID() == want.uid:
		return r.seq.violation(truthful, index, "the object existed at SYNCED")
	case !known:
		return r.seq.violation(r.start.promiseOf(stream.Added), i,
			fmt.Sprintf("%s@%s existed, and is missing", key.Name, want.rv))
	case exists && have.uid != want.uid:
		why := fmt.Sprintf("%s existed with uid %q, and was delivered with uid %q", key.Name, want.uid, have.uid)
		return r.seq.violation(r.start.promiseOf(stream.Deleted), i, why)
	case exists && here && older(want.rv, have.rv):
		return r.seq.violation(truthful, index, "the object was at version "+want.rv+" at SYNCED")
	case exists:
		why := fmt.Sprintf("%s was at version %s, and was delivered at version %s", key.Name, want.rv, have.rv)
		return r.seq.violation(r.start.promiseOf(stream.Modified), i, why)
	case here && !r.wasPresent(cand, next, key, have.uid):
		return r.seq.violation(truthful, index, "the object did not exist at SYNCED")
	}
	why := fmt.Sprintf("%s with uid %q was removed, and its DELETED is missing", key.Name, have.uid)
	return r.seq.violation(r.start.promiseOf(stream.Deleted), i, why)
}

// wasPresent reports whether the object existed at any time in the gap before next.
func (r rules) wasPresent(cand, next *candidate, key types.NamespacedName, uid types.UID) bool {
	from := cand.pos
	if next.epoch > cand.epoch || r.mayGoBack(cand) {
		from = 0
	}
	present, _ := r.past.timelines[next.epoch][:next.pos].presence(min(from, next.pos), key, uid)
	return present
}
