package streamtest

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

type phase int

const (
	inSnapshot phase = iota // the first snapshot is being delivered
	inGap                   // differences are being delivered: after a GAP, or because a run until SYNCED resumes
	isLive                  // changes are being delivered
)

// source checks the events of one namespace, or of the whole cluster. It alone changes start and segment.
type source struct {
	seq        *sequence
	past       past
	start      start
	segment    segment
	rules      rules
	candidates []*candidate // mostly one
	broken     bool
}

// start is how the sequence began. It is reset at the first SYNCED.
type start struct {
	begins   bool                               // no event yet; SYNCED may say that the watch is open
	unknown  bool                               // objects may exist that were not delivered
	lacks    bool                               // so may From: its first GAP has HistoryLost
	resuming bool                               // From, and no live event yet
	restarts string                             // why GAP comes first, if it must
	pending  map[types.UID]types.NamespacedName // perhaps delivered before: their current state must be delivered
}

// resume adds an object of the position. Of several objects with one name the newest is known, and the others are
// pending: their removals must be delivered.
func (s *start) resume(known state, k checkpoint.Object) {
	name := k.NamespacedName()
	was, ok := known[name]
	if k.ResourceVersion == "" || ok && older(k.ResourceVersion, was.rv) {
		s.pending[k.UID] = name
		return
	}
	if ok {
		s.pending[was.uid] = name
	}
	known[name] = ref{k.UID, k.ResourceVersion}
}

// promiseOf returns the promise that a missing event of this type breaks.
func (s *start) promiseOf(kind stream.Type) string {
	switch {
	case s.resuming:
		return resumed
	case kind == stream.Deleted:
		return removed
	}
	return complete
}

// mayBeKnown reports whether the object of ev is pending: if it exists, the next event of it is ADDED.
func (s *start) mayBeKnown(ev stream.Event) bool {
	name, ok := s.pending[ev.Object.GetUID()]
	return ok && name == keyOf(ev.Object)
}

// isPending reports whether ev is the removal of a pending object that is not also known.
func (s *start) isPending(cand *candidate, ev stream.Event) bool {
	return ev.Type == stream.Deleted && s.mayBeKnown(ev) && cand.known[keyOf(ev.Object)].uid != ev.Object.GetUID()
}

// segment is what happened since the last SYNCED.
type segment struct {
	phase     phase
	cursor    string                       // everything up to this version was delivered
	delivered map[types.NamespacedName]int // index of the last event of each object
	opened    int                          // index of the first GAP, or of the last GAP(rewound)
	rewound   bool                         // there was a GAP(rewound), or GAP(unordered): versions mean nothing
	to        string                       // of the last GAP
}

func newSource(seq *sequence, h History, namespace string) *source {
	o := seq.opts
	s := &source{seq: seq, past: past{namespace: namespace, timelines: timelines(h, namespace, o)}}
	s.rules = rules{seq, &s.past, &s.start, &s.segment}
	s.segment = segment{cursor: o.After, delivered: map[types.NamespacedName]int{}, opened: -1}
	s.start = start{unknown: o.Now || o.After != "", resuming: o.From != nil}
	known := state{}
	if o.From != nil { // a position without a version makes the sequence read a snapshot
		begin, begun := o.From.ResourceVersions[namespace]
		s.segment.cursor, s.start.unknown = begin, o.From.Partial
		s.start.pending = map[types.UID]types.NamespacedName{}
		for _, k := range o.From.Objects {
			if namespace == "" || k.Namespace == namespace {
				s.start.resume(known, k)
			}
		}
		s.start.lacks = o.From.Partial || o.From.Unclean
		switch rv, moved := o.From.At(namespace); {
		case rv == "" && (moved || begun || len(known)+len(s.start.pending) > 0):
			s.start.restarts = "the position knows objects but no version"
		case o.UntilSynced && s.start.lacks:
			s.start.restarts = "the position may lack objects"
		}
	}
	switch {
	case s.segment.cursor == "":
	case o.UntilSynced:
		s.segment.phase = inGap
	default:
		s.segment.phase, s.start.begins = isLive, true
	}
	for epoch, t := range s.past.timelines {
		s.past.indexes = append(s.past.indexes, t.index())
		cand := &candidate{epoch: epoch, known: maps.Clone(known), reached: map[types.NamespacedName]int{}}
		if s.segment.cursor != "" {
			cand.pos = t.position(s.segment.cursor)
			for key, r := range known { // an object may have been acked ahead of the position
				cand.reached[key] = t.position(r.rv)
			}
		}
		s.candidates = append(s.candidates, cand)
	}
	return s
}

// apply applies a rule, unless one was broken before.
func (s *source) apply(rule func(*source) *Violation) (v *Violation) {
	if !s.broken {
		v = rule(s)
		s.broken = v != nil
	}
	return v
}

// try keeps the candidates for which f finds nothing wrong. If none is left, it returns the violation of the last.
func (s *source) try(f func(*candidate) *Violation) *Violation {
	var fit []*candidate
	var wrong *Violation
	for _, cand := range s.candidates {
		if v := f(cand); v != nil {
			wrong = v
		} else {
			fit = append(fit, cand)
		}
	}
	if len(fit) > 0 {
		s.candidates, wrong = fit, nil
	}
	return wrong
}

func (s *source) event(i int, ev stream.Event) *Violation {
	defer func() { s.start.begins = false }()
	rule := s.rules.live
	switch {
	case ev.Type == stream.Gap:
		s.start.restarts = ""
		return s.gap(i, ev)
	case s.start.restarts != "":
		return s.unannounced(i)
	case ev.Type == stream.Bookmark:
		return s.bookmark(i, ev.ResourceVersion)
	case s.segment.phase != isLive:
		if why := s.rules.mismarked(ev); why != "" {
			return s.seq.violation(announced, i, why)
		}
		rule = s.rules.difference
	case ev.Inferred:
		rule = s.rules.replaced
	}
	if v := s.try(func(cand *candidate) *Violation { return rule(cand, i, ev) }); v != nil {
		return v
	}
	s.segment.delivered[keyOf(ev.Object)] = i
	delete(s.start.pending, ev.Object.GetUID())
	if s.segment.phase == isLive {
		s.start.resuming = false
		if !ev.Inferred && ev.Coalesced() == 0 && !older(ev.ResourceVersion, s.segment.cursor) {
			s.segment.cursor = ev.ResourceVersion
		}
	}
	return nil
}

// unannounced is the violation of a sequence that does not begin with a GAP, though its position demands it.
func (s *source) unannounced(i int) *Violation {
	return s.seq.violation(announced, i, s.start.restarts+", so GAP must come first"+s.past.in())
}

var reasons = []stream.GapReason{stream.GapExpired, stream.GapRewound, stream.GapPoison,
	stream.GapUnordered, stream.GapUnversioned, stream.GapRestarted, stream.GapFuture,
	stream.GapScope}

func (s *source) gap(i int, ev stream.Event) *Violation {
	g, why := ev.Gap, ""
	switch {
	case g == nil || !slices.Contains(reasons, g.Reason):
		why = "unknown reason"
	case g.Duration < 0:
		why = "negative duration"
	case g.From == "" && s.segment.phase == isLive:
		why = "From must be set"
	case !g.HistoryLost && (s.segment.phase == isLive && s.start.unknown || s.start.lacks):
		why = "HistoryLost must be set while objects may exist that were not delivered"
	}
	if why != "" {
		return s.seq.violation(announced, i, why)
	}
	s.start.lacks = false // the snapshot may be complete before SYNCED
	if s.segment.phase == isLive {
		if v := s.upTo(i, g.From); v != nil {
			return v
		}
		s.segment.opened, s.segment.rewound = i, false
		if !older(g.From, s.segment.cursor) {
			s.segment.cursor = g.From
		}
	}
	if g.Reason == stream.GapRewound || g.Reason == stream.GapUnordered {
		s.segment.opened, s.segment.rewound = i, true // all objects may be delivered again
	}
	s.segment.phase, s.segment.to = inGap, g.To
	return nil
}

func (s *source) bookmark(i int, rv string) *Violation {
	switch {
	case s.segment.phase != isLive && s.seq.joint():
		return nil // this namespace may be live already
	case s.segment.phase != isLive:
		return s.seq.violation(announced, i, "BOOKMARK before SYNCED")
	case older(rv, s.segment.cursor):
		return s.seq.violation(monotonic, i, "everything up to "+s.segment.cursor+" was delivered before")
	}
	s.segment.cursor = rv
	return s.upTo(i, rv)
}

// upTo checks the claim of event i that everything up to rv was delivered.
func (s *source) upTo(i int, rv string) *Violation {
	return s.try(func(cand *candidate) *Violation {
		pos := s.past.timelines[cand.epoch].position(rv)
		if e := s.rules.missing(cand, pos); e != nil {
			why := fmt.Sprintf("everything up to %s should have been delivered, but %s was not", rv, e.text())
			return s.seq.violation(s.start.promiseOf(e.kind), i, why)
		}
		cand.pos = max(cand.pos, pos)
		return nil
	})
}

// end checks that nothing is missing at the end.
func (s *source) end() *Violation {
	i := len(s.seq.events)
	switch {
	case !s.seq.opts.Complete:
		return nil
	case s.segment.phase != isLive:
		return s.seq.violation(announced, i, "SYNCED is missing"+s.past.in())
	case s.seq.opts.UntilSynced:
		return nil
	}
	if v := s.try(func(cand *candidate) *Violation {
		last := s.past.timelines[len(s.past.timelines)-1]
		if cand.epoch < len(s.past.timelines)-1 {
			if maps.Equal(cand.known, last.at(len(last))) {
				return nil
			}
			return s.seq.violation(monotonic, i, "the server went back in time, and no GAP says so"+s.past.in())
		}
		if e := s.rules.missing(cand, len(last)); e != nil {
			return s.seq.violation(s.start.promiseOf(e.kind), i, e.text()+" is missing"+s.past.in())
		}
		return nil
	}); v != nil {
		return v
	}
	return s.unresolved(i)
}

// unresolved reports a pending object of which no event was delivered. After a rewind it may be of an undone past.
func (s *source) unresolved(i int) *Violation {
	if len(s.start.pending) == 0 || len(s.past.timelines) > 1 {
		return nil
	}
	uid := slices.Sorted(maps.Keys(s.start.pending))[0]
	why := fmt.Sprintf("the object with uid %q may have been delivered before, and no event gives its state", uid)
	return s.seq.violation(resumed, i, why)
}

// awaitsSynced reports whether SYNCED may come.
func (s *source) awaitsSynced() bool { return s.broken || s.segment.phase != isLive || s.start.begins }

// syncedOf checks the SYNCED of all namespaces, which is due if one of them awaits it.
func (s *source) syncedOf(i int, rv string, due bool) *Violation {
	switch {
	case s.start.restarts != "":
		return s.unannounced(i)
	case !due:
		return s.seq.violation(announced, i, "SYNCED without a snapshot before it")
	case s.segment.phase != isLive:
		return s.synced(i, rv)
	case s.start.begins: // a watch at the start version is open
		s.start.begins = false
		return s.upTo(i, rv)
	}
	return nil
}

// synced compares what was delivered with the state at the version of SYNCED, or at any version if it has none, in each
// epoch that is possible.
func (s *source) synced(i int, rv string) *Violation {
	if !s.segment.rewound {
		for _, seen := range []string{s.segment.cursor, s.segment.to} {
			if older(rv, seen) {
				return s.seq.violation(monotonic, i, "everything up to "+seen+" was delivered before")
			}
		}
	}
	var fit []*candidate
	var nearest []*Violation
	for _, cand := range s.candidates {
		for epoch := cand.epoch; epoch < len(s.past.timelines); epoch++ {
			t := s.past.timelines[epoch]
			from, to := t.position(rv), t.position(rv)
			if rv == "" {
				from, to = 0, len(t)
			}
			if rv == "" && epoch == cand.epoch && !s.segment.rewound {
				from = cand.pos
			}
			t.states(from, to, func(pos int, at state) {
				next := &candidate{epoch: epoch, pos: pos, reached: map[types.NamespacedName]int{}}
				if slices.ContainsFunc(fit, func(o *candidate) bool { return o.epoch == epoch && o.pos == pos }) {
					return
				}
				all := s.rules.mismatches(i, cand, next, at)
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
