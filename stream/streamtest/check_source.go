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
	inGap                   // the differences after a GAP are being delivered
	isLive                  // changes are being delivered
)

// source checks the events of one namespace, or of the whole cluster.
type source struct {
	*checker
	namespace  string
	timelines  []timeline          // by epoch
	indexes    []map[changeKey]int // of each timeline
	candidates []*candidate        // mostly one
	broken     bool
	start
	segment
}

// candidate is a server state that explains the events so far: the first pos changes of an epoch were delivered.
// There are several candidates until epochs differ, or if a SYNCED has no version.
type candidate struct {
	epoch, pos int
	known      state // to the receiver
	// reached is the position after the last delivered change of an object, if that is later than pos.
	reached map[types.NamespacedName]int
}

// start is how the sequence began. It is reset at the first SYNCED.
type start struct {
	begins   bool                               // no event yet; SYNCED may say that the watch is open
	unknown  bool                               // objects may exist that were not delivered
	resuming bool                               // From, and no live event yet
	restarts bool                               // From has no version, and knows something: GAP comes first
	pending  map[types.UID]types.NamespacedName // perhaps delivered before: their current state must be delivered
}

// segment is what happened since the last SYNCED.
type segment struct {
	phase     phase
	cursor    string                       // everything up to this version was delivered
	delivered map[types.NamespacedName]int // index of the last event of each object
	opened    int                          // index of the first GAP, or of the last GAP(rewound)
	rewound   bool                         // there was a GAP(rewound)
	to        string                       // of the last GAP
}

func newSource(c *checker, h History, namespace string) *source {
	o := c.opts
	s := &source{checker: c, namespace: namespace, timelines: timelines(h, namespace, o)}
	s.segment = segment{cursor: o.startVersion(namespace), delivered: map[types.NamespacedName]int{}, opened: -1}
	s.start = start{unknown: o.Now || o.partial(), resuming: o.From != nil}
	if s.cursor != "" {
		s.phase, s.begins = isLive, true
	}
	known := state{}
	if o.From != nil {
		s.pending = map[types.UID]types.NamespacedName{}
		for _, k := range o.From.Objects {
			if namespace == "" || k.Namespace == namespace {
				s.resume(known, k)
			}
		}
	}
	if o.From != nil {
		rv, moved := o.From.At(namespace)
		_, begun := o.From.ResourceVersions[namespace]
		s.restarts = rv == "" && (moved || begun || len(known)+len(s.pending) > 0)
	}
	for epoch, t := range s.timelines {
		s.indexes = append(s.indexes, t.index())
		cand := &candidate{epoch: epoch, known: maps.Clone(known), reached: map[types.NamespacedName]int{}}
		if s.cursor != "" {
			cand.pos = t.position(s.cursor)
			for key, r := range known { // an object may have been acked ahead of the position
				cand.reached[key] = t.position(r.rv)
			}
		}
		s.candidates = append(s.candidates, cand)
	}
	return s
}

// resume adds an object of the position. Of several objects with one name the newest is known, and the others are
// pending: their removals must be delivered.
func (s *source) resume(known state, k checkpoint.Object) {
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
	defer func() { s.begins = false }()
	rule := s.live
	switch {
	case ev.Type == stream.Gap:
		s.restarts = false
		return s.gap(i, ev)
	case s.restarts:
		return s.unannounced(i)
	case ev.Type == stream.Bookmark:
		return s.bookmark(i, ev.ResourceVersion)
	case s.phase != isLive:
		if why := s.mismarked(ev); why != "" {
			return s.violation(announced, i, why)
		}
		rule = s.difference
	case ev.Inferred:
		rule = s.replaced
	}
	if v := s.try(func(cand *candidate) *Violation { return rule(cand, i, ev) }); v != nil {
		return v
	}
	s.delivered[keyOf(ev.Object)] = i
	delete(s.pending, ev.Object.GetUID())
	if s.phase == isLive {
		s.resuming = false
		if !ev.Inferred && ev.Coalesced() == 0 && !older(ev.ResourceVersion, s.cursor) {
			s.cursor = ev.ResourceVersion
		}
	}
	return nil
}

// unannounced is the violation of a sequence that does not begin with a GAP, though its position has no version.
func (s *source) unannounced(i int) *Violation {
	return s.violation(announced, i, "the position knows objects but no version, so GAP must come first"+s.in())
}

// deliver makes an event known. A DELETED of another uid than the known one is that of a pending object.
func (cand *candidate) deliver(ev stream.Event) {
	key := keyOf(ev.Object)
	switch {
	case ev.Type != stream.Deleted:
		cand.known[key] = refOf(ev.Object)
	case cand.known[key].uid == ev.Object.GetUID():
		delete(cand.known, key)
	}
}

// undelivered reports whether the sequence may know an object of that name without having delivered it.
func (s *source) undelivered(key types.NamespacedName) bool {
	_, ok := s.delivered[key]
	return s.unknown && !ok
}

// isPending reports whether ev is the removal of a pending object that is not also known.
func (s *source) isPending(cand *candidate, ev stream.Event) bool {
	key, uid := keyOf(ev.Object), ev.Object.GetUID()
	name, ok := s.pending[uid]
	return ev.Type == stream.Deleted && ok && name == key && cand.known[key].uid != uid
}

var reasons = []stream.GapReason{stream.GapExpired, stream.GapRewound, stream.GapPoison,
	"unversioned", stream.GapRestarted, stream.GapScope}

func (s *source) gap(i int, ev stream.Event) *Violation {
	g, why := ev.Gap, ""
	switch {
	case g == nil || !slices.Contains(reasons, g.Reason):
		why = "unknown reason"
	case g.Duration < 0:
		why = "negative duration"
	case g.From == "" && s.phase == isLive:
		why = "From must be set"
	case !g.HistoryLost && s.phase == isLive && s.unknown:
		why = "HistoryLost must be set while objects may exist that were not delivered"
	}
	if why != "" {
		return s.violation(announced, i, why)
	}
	if s.phase == isLive {
		if v := s.upTo(i, g.From); v != nil {
			return v
		}
		s.opened, s.rewound = i, false
		if !older(g.From, s.cursor) {
			s.cursor = g.From
		}
	}
	if g.Reason == stream.GapRewound {
		s.opened, s.rewound = i, true // all objects may be delivered again
	}
	s.phase, s.to = inGap, g.To
	return nil
}

func (s *source) bookmark(i int, rv string) *Violation {
	switch {
	case s.phase != isLive && s.joint():
		return nil // this namespace may be live already
	case s.phase != isLive:
		return s.violation(announced, i, "BOOKMARK before SYNCED")
	case older(rv, s.cursor):
		return s.violation(monotonic, i, "everything up to "+s.cursor+" was delivered before")
	}
	s.cursor = rv
	return s.upTo(i, rv)
}

// upTo checks the claim of event i that everything up to rv was delivered.
func (s *source) upTo(i int, rv string) *Violation {
	return s.try(func(cand *candidate) *Violation {
		pos := s.timelines[cand.epoch].position(rv)
		if e := s.missing(cand, pos); e != nil {
			why := fmt.Sprintf("everything up to %s should have been delivered, but %s was not", rv, e.text())
			return s.violation(s.promiseOf(e.kind), i, why)
		}
		cand.pos = max(cand.pos, pos)
		return nil
	})
}

// missing returns the first change up to pos that was due and not delivered. With Latest only the last change of an
// object is due, and only if the object is known otherwise.
func (s *source) missing(cand *candidate, pos int) *entry {
	t := s.timelines[cand.epoch]
	last := map[types.NamespacedName]*entry{}
	between := t[min(cand.pos, pos):pos]
	for i, e := range between {
		_, known := cand.known[e.key]
		switch {
		case e.kind == "" || cand.pos+i < cand.reached[e.key]:
		case !known && s.opts.Latest && (!e.exists || t.ends(pos, e)):
			delete(last, e.key) // it came and went
		case !known && !e.exists && (s.opts.Selected != nil || !s.undelivered(e.key)): // an unknown object ended
		case !s.opts.Latest:
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

// promiseOf returns the promise that a missing event of this type breaks.
func (s *source) promiseOf(kind stream.Type) string {
	switch {
	case s.resuming:
		return resumed
	case kind == stream.Deleted:
		return removed
	}
	return complete
}

// end checks that nothing is missing at the end.
func (s *source) end() *Violation {
	i := len(s.events)
	switch {
	case !s.opts.Complete:
		return nil
	case s.phase != isLive:
		return s.violation(announced, i, "SYNCED is missing"+s.in())
	}
	if v := s.try(func(cand *candidate) *Violation {
		last := s.timelines[len(s.timelines)-1]
		if cand.epoch < len(s.timelines)-1 {
			if maps.Equal(cand.known, last.at(len(last))) {
				return nil
			}
			return s.violation(monotonic, i, "the server went back in time, and no GAP says so"+s.in())
		}
		if e := s.missing(cand, len(last)); e != nil {
			return s.violation(s.promiseOf(e.kind), i, e.text()+" is missing"+s.in())
		}
		return nil
	}); v != nil {
		return v
	}
	return s.unresolved(i)
}

// unresolved reports a pending object of which no event was delivered. After a rewind it may be of an undone past.
func (s *source) unresolved(i int) *Violation {
	if len(s.pending) == 0 || len(s.timelines) > 1 {
		return nil
	}
	uid := slices.Sorted(maps.Keys(s.pending))[0]
	why := fmt.Sprintf("the object with uid %q may have been delivered before, and no event gives its state", uid)
	return s.violation(resumed, i, why)
}

// joint reports whether SYNCED is of several namespaces, each of which is live before it.
func (s *source) joint() bool { return len(s.sources) > 1 }

func (s *source) in() string {
	if s.namespace == "" {
		return ""
	}
	return " in " + s.namespace
}
