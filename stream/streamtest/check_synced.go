package streamtest

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// mismatch is an object that what was told does not have as the server had it.
type mismatch struct {
	problem
	index int
}

// synced compares what has been told with the state of each epoch that there can
// be, at the version of SYNCED, or at any where it has none.
func (s *source) synced(i int, ev stream.Event) {
	s.flush()
	back := ""
	if !s.rewound && !s.hidden {
		switch {
		case s.phase == gap && older(ev.ResourceVersion, s.cursor):
			back = s.cursor
		case older(ev.ResourceVersion, s.to):
			back = s.to
		}
	}
	var fit []world
	var nearest world
	var broken []mismatch
	compared := false
	for _, w := range s.worlds {
		started := s.timelines[w.epoch].at(w.pos)
		for epoch := w.epoch; epoch < len(s.timelines); epoch++ {
			t := s.timelines[epoch]
			from, to := 0, len(t)
			if pos, ok := t.position(ev.ResourceVersion); ok {
				from, to = pos, pos
			} else if epoch == w.epoch && !s.rewound && !s.hidden {
				from = w.pos
			}
			t.states(from, to, func(pos int, at state) {
				next := world{epoch: epoch, pos: pos}
				if reached(fit, next) {
					return
				}
				all := s.mismatches(i, w, next, at, started)
				if len(all) == 0 {
					next.base = maps.Clone(at)
					fit = append(fit, next)
				} else if !compared || len(all) < len(broken) {
					next.base = maps.Clone(at)
					nearest, broken, compared = next, all, true
				}
			})
		}
	}
	switch {
	case back != "":
		s.report(ErrBackInTime, i, "everything up to "+back+" has been told")
		if len(fit) == 0 {
			fit = []world{nearest}
		}
	case len(fit) == 0:
		for _, m := range broken {
			s.report(m.promise, m.index, m.why)
		}
		fit = []world{nearest}
	}
	s.worlds = fit
	s.told, s.seen = map[types.NamespacedName]told{}, map[seenKey]bool{}
	s.phase, s.cursor, s.to = live, ev.ResourceVersion, ""
	s.begins, s.unknown, s.silent, s.resuming = false, false, false, false
}

func reached(worlds []world, w world) bool {
	return slices.ContainsFunc(worlds, func(o world) bool { return o.epoch == w.epoch && o.pos == w.pos })
}

// mismatches compares what is known in w with at, the state in next. started is
// the state when the GAP was told.
func (s *source) mismatches(i int, w, next world, at, started state) []mismatch {
	known := s.known(w)
	if known.equal(at) {
		return nil
	}
	var all []mismatch
	for _, key := range sorted(known, at) {
		m := mismatch{index: i}
		have, ok := known[key]
		want, exists := at[key]
		t, told := s.told[key]
		here := told && t.index > s.opened // in this snapshot
		switch {
		case have == want && ok == exists, s.silent && !told:
			continue
		case !ok && s.unknown && s.lost && !told && started[key] == want:
			continue // from before the start, and unchanged
		case ok && !exists && s.hides(key) && s.lived(w, next, key, have.uid):
			continue // it left the selection, maybe, which needs no word without an index
		case !ok && here && t.uid == want.uid:
			m.problem, m.index = problem{ErrInvented, fmt.Sprintf("the object existed at %s", s.version(next))}, t.index
		case !ok:
			m.problem = problem{s.absence(stream.Added), fmt.Sprintf("%s@%s existed, and was not told", key.Name, want.rv)}
		case exists && have.uid != want.uid:
			m.problem = problem{s.absence(stream.Deleted), fmt.Sprintf("%s was another object then, with uid %q, not %q", key.Name, want.uid, have.uid)}
		case exists && here && older(want.rv, have.rv):
			m.problem, m.index = problem{ErrInvented, fmt.Sprintf("it was at version %s at %s", want.rv, s.version(next))}, t.index
		case exists:
			m.problem = problem{s.absence(stream.Modified), fmt.Sprintf("%s was at version %s, and %s was told", key.Name, want.rv, have.rv)}
		case here && !s.lived(w, next, key, have.uid):
			m.problem, m.index = problem{ErrInvented, fmt.Sprintf("the object did not exist at %s", s.version(next))}, t.index
		default:
			m.problem = problem{s.absence(stream.Deleted), fmt.Sprintf("%s with uid %q was gone, and that was not told", key.Name, have.uid)}
		}
		all = append(all, m)
	}
	return all
}

// lived says whether the object was there at any time in the gap before next.
func (s *source) lived(w, next world, key types.NamespacedName, uid types.UID) bool {
	from := w.pos
	if next.epoch > w.epoch || s.mayGoBack(w) {
		from = 0
	}
	ever, _ := s.timelines[next.epoch][:next.pos].lives(min(from, next.pos), key, uid)
	return ever
}

func (s *source) version(w world) string {
	if w.pos == 0 {
		return "the beginning"
	}
	return s.timelines[w.epoch][w.pos-1].ref.rv
}

// confirmed is a SYNCED without a snapshot. due says that it may be one that tells
// that a watch at the start version is open.
func (s *source) confirmed(i int, ev stream.Event, due bool) {
	s.begins = false
	if due {
		s.upTo(i, ev.ResourceVersion, "it")
		return
	}
	// That it is not due has been told; where it agrees with a world it helps to
	// follow what comes.
	var fit []world
	for _, w := range s.worlds {
		if pos, ok := s.timelines[w.epoch].position(ev.ResourceVersion); ok && len(s.due(w, pos)) == 0 {
			w.pos = max(w.pos, pos)
			fit = append(fit, w)
		}
	}
	if len(fit) > 0 {
		s.worlds = fit
	}
}

func sorted(a, b state) []types.NamespacedName {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.SortedFunc(maps.Keys(all), func(x, y types.NamespacedName) int {
		return slices.Compare([]string{x.Namespace, x.Name}, []string{y.Namespace, y.Name})
	})
}
