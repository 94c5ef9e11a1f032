package streamtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// synced holds a source to the state of each epoch that there can be, at the version
// of SYNCED, or at any where it has none.
func (s *source) synced(i int, rv string) *Violation {
	if !s.rewound {
		for _, seen := range []string{s.cursor, s.to} {
			if older(rv, seen) {
				return s.violation(monotonic, i, "everything up to "+seen+" has been delivered")
			}
		}
	}
	var fit []*world
	var nearest []*Violation
	for _, w := range s.worlds {
		for epoch := w.epoch; epoch < len(s.timelines); epoch++ {
			t := s.timelines[epoch]
			from, to := t.position(rv), t.position(rv)
			if rv == "" {
				from, to = 0, len(t)
			}
			if rv == "" && epoch == w.epoch && !s.rewound {
				from = w.pos
			}
			t.states(from, to, func(pos int, at state) {
				next := &world{epoch: epoch, pos: pos, reached: map[types.NamespacedName]int{}}
				if slices.ContainsFunc(fit, func(o *world) bool { return o.epoch == epoch && o.pos == pos }) {
					return
				}
				all := s.mismatches(i, w, next, at)
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
	s.worlds = fit
	s.segment = segment{phase: live, cursor: rv, delivered: map[types.NamespacedName]int{}, opened: i}
	s.start = start{}
	return nil
}

// mismatches compares what is known in w with at, the state in next.
func (s *source) mismatches(i int, w, next *world, at state) []*Violation {
	if maps.Equal(w.known, at) {
		return nil
	}
	all := maps.Clone(w.known)
	maps.Copy(all, at)
	var found []*Violation
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		if v := s.mismatch(i, w, next, key, at); v != nil {
			found = append(found, v)
		}
	}
	return found
}

func (s *source) mismatch(i int, w, next *world, key types.NamespacedName, at state) *Violation {
	have, known := w.known[key]
	want, exists := at[key]
	index, delivered := s.delivered[key]
	here := delivered && index > s.opened // in this snapshot
	switch {
	case have == want:
		return nil
	case !known && s.opts.Now && s.obscure(key):
		return nil
	case !known && s.obscure(key) && s.timelines[w.epoch].at(w.pos)[key] == want:
		return nil // from before the start, and unchanged
	case !known && here && s.events[index].Object.GetUID() == want.uid:
		return s.violation(truthful, index, "the object existed at SYNCED")
	case !known:
		return s.violation(s.absence(stream.Added), i, fmt.Sprintf("%s@%s existed, and is missing", key.Name, want.rv))
	case exists && have.uid != want.uid:
		why := fmt.Sprintf("%s was another object then, with uid %q, not %q", key.Name, want.uid, have.uid)
		return s.violation(s.absence(stream.Deleted), i, why)
	case exists && here && older(want.rv, have.rv):
		return s.violation(truthful, index, "it was at version "+want.rv+" at SYNCED")
	case exists:
		why := fmt.Sprintf("%s was at version %s, and %s was delivered", key.Name, want.rv, have.rv)
		return s.violation(s.absence(stream.Modified), i, why)
	case here && !s.lived(w, next, key, have.uid):
		return s.violation(truthful, index, "the object did not exist at SYNCED")
	}
	why := fmt.Sprintf("%s with uid %q was gone, and that is missing", key.Name, have.uid)
	return s.violation(s.absence(stream.Deleted), i, why)
}

// lived says whether the object was there at any time in the gap before next.
func (s *source) lived(w, next *world, key types.NamespacedName, uid types.UID) bool {
	from := w.pos
	if next.epoch > w.epoch || s.mayGoBack(w) {
		from = 0
	}
	ever, _ := s.timelines[next.epoch][:next.pos].lives(min(from, next.pos), key, uid)
	return ever
}
