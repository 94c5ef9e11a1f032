package streamtest

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

type phase int

const (
	initial phase = iota // the first snapshot is being delivered
	gap                  // the differences after a GAP are being delivered
	live                 // what happens is being delivered
)

// source follows the events of one namespace, or of the whole cluster, in all worlds
// in which they can have come about.
type source struct {
	*checker
	namespace string
	timelines []timeline          // by epoch
	indexes   []map[changeKey]int // of each
	worlds    []*world            // mostly one
	broken    bool
	start
	segment
}

// world is one way in which the events can have come about. There are several while
// epochs have not parted, or where a SYNCED has no version.
type world struct {
	epoch, pos int   // everything up to pos has been delivered
	known      state // by the receiver
	// reached is the position after the last change that was delivered of an object,
	// where that is after pos.
	reached map[types.NamespacedName]int
}

// start is how the sequence began, until the first SYNCED.
type start struct {
	begins   bool                               // nothing has been delivered yet; SYNCED may say that the watch is open
	unknown  bool                               // what existed at the start is known to the sequence only (Now), or to nobody
	resuming bool                               // From, and no live event yet
	pending  map[types.UID]types.NamespacedName // may have been delivered before: how they are now has to be
}

// segment is what has been delivered since the last SYNCED.
type segment struct {
	phase     phase
	cursor    string                       // the version up to which everything has been delivered
	delivered map[types.NamespacedName]int // the index of the last event of each
	opened    int                          // index of the first GAP, or of one that says rewound
	rewound   bool                         // a GAP said so
	to        string                       // of the last GAP
}

func newSource(c *checker, h History, namespace string) *source {
	o := c.opts
	s := &source{checker: c, namespace: namespace, timelines: timelines(h, namespace, o)}
	s.segment = segment{cursor: o.startVersion(namespace), delivered: map[types.NamespacedName]int{}, opened: -1}
	s.start = start{unknown: o.Now || o.partial(), resuming: o.From != nil}
	if s.cursor != "" {
		s.phase, s.begins = live, true
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
	for epoch, t := range s.timelines {
		s.indexes = append(s.indexes, t.index())
		w := &world{epoch: epoch, known: maps.Clone(known), reached: map[types.NamespacedName]int{}}
		if s.cursor != "" {
			w.pos = t.position(s.cursor)
			for key, r := range known { // it may have been acked ahead of the position
				w.reached[key] = t.position(r.rv)
			}
		}
		s.worlds = append(s.worlds, w)
	}
	return s
}

// resume enters an object that was known. Of several with one name the newest is:
// the ends of the others have to be delivered, as those of pending ones.
func (s *source) resume(known state, k KnownObject) {
	was, ok := known[k.NamespacedName]
	if k.ResourceVersion == "" || ok && older(k.ResourceVersion, was.rv) {
		s.pending[k.UID] = k.NamespacedName
		return
	}
	if ok {
		s.pending[was.uid] = k.NamespacedName
	}
	known[k.NamespacedName] = ref{k.UID, k.ResourceVersion}
}

// try keeps the worlds in which f finds nothing wrong. If there are none, it returns
// what is wrong in the last one.
func (s *source) try(f func(*world) *Violation) *Violation {
	var fit []*world
	var wrong *Violation
	for _, w := range s.worlds {
		if v := f(w); v != nil {
			wrong = v
		} else {
			fit = append(fit, w)
		}
	}
	if len(fit) > 0 {
		s.worlds, wrong = fit, nil
	}
	return wrong
}

func (s *source) event(i int, ev stream.Event) *Violation {
	defer func() { s.begins = false }()
	rule := s.live
	switch {
	case ev.Type == stream.Gap:
		return s.gap(i, ev)
	case ev.Type == stream.Bookmark:
		return s.bookmark(i, ev.ResourceVersion)
	case s.phase != live:
		if why := s.mismarked(ev); why != "" {
			return s.violation(announced, i, why)
		}
		rule = s.difference
	case ev.Inferred:
		rule = s.replaced
	}
	if v := s.try(func(w *world) *Violation { return rule(w, i, ev) }); v != nil {
		return v
	}
	s.delivered[keyOf(ev.Object)] = i
	delete(s.pending, ev.Object.GetUID())
	if s.phase == live {
		s.resuming = false
		if !ev.Inferred && ev.Coalesced == 0 && !older(ev.ResourceVersion, s.cursor) {
			s.cursor = ev.ResourceVersion
		}
	}
	return nil
}

// enter makes an event known. The end of another object than the one that is known by
// its name is that of a pending one.
func (w *world) enter(ev stream.Event) {
	key := keyOf(ev.Object)
	switch {
	case ev.Type != stream.Deleted:
		w.known[key] = refOf(ev.Object)
	case w.known[key].uid == ev.Object.GetUID():
		delete(w.known, key)
	}
}

// obscure says whether the sequence may know of a name what it did not deliver.
func (s *source) obscure(key types.NamespacedName) bool {
	_, ok := s.delivered[key]
	return s.unknown && !ok
}

// isPending says whether ev is the end of an object that may have been delivered
// before the sequence resumed, and is not known besides.
func (s *source) isPending(w *world, ev stream.Event) bool {
	key, uid := keyOf(ev.Object), ev.Object.GetUID()
	name, ok := s.pending[uid]
	return ev.Type == stream.Deleted && ok && name == key && w.known[key].uid != uid
}

var reasons = []stream.GapReason{stream.GapExpired, stream.GapRewound, stream.GapPoison,
	stream.GapUnversioned, stream.GapRestarted, stream.GapScope}

func (s *source) gap(i int, ev stream.Event) *Violation {
	g, why := ev.Gap, ""
	switch {
	case g == nil || !slices.Contains(reasons, g.Reason):
		why = "it does not say why"
	case g.Duration < 0:
		why = "its duration is negative"
	case g.From == "" && s.phase == live:
		why = "it does not say from where"
	case !g.HistoryLost && (s.opts.IndexNone || s.phase == live && s.unknown):
		why = "without an index history is lost, and it does not say so"
	}
	if why != "" {
		return s.violation(announced, i, why)
	}
	if s.phase == live {
		if v := s.upTo(i, g.From); v != nil {
			return v
		}
		s.opened, s.rewound = i, false
		if !older(g.From, s.cursor) {
			s.cursor = g.From
		}
	}
	if g.Reason == stream.GapRewound {
		s.opened, s.rewound = i, true // and everything may be delivered once more
	}
	s.phase, s.to = gap, g.To
	if s.opts.IndexNone {
		s.unknown = false
		clear(s.delivered)
		for _, w := range s.worlds {
			clear(w.known)
		}
	}
	return nil
}

func (s *source) bookmark(i int, rv string) *Violation {
	switch {
	case s.phase != live && s.joint():
		return nil // it may be live already
	case s.phase != live:
		return s.violation(announced, i, "not everything up to there has been delivered before SYNCED")
	case older(rv, s.cursor):
		return s.violation(monotonic, i, "everything up to "+s.cursor+" has been delivered")
	}
	s.cursor = rv
	return s.upTo(i, rv)
}

// upTo holds a source to the claim of event i that everything up to rv has been
// delivered.
func (s *source) upTo(i int, rv string) *Violation {
	return s.try(func(w *world) *Violation {
		pos := s.timelines[w.epoch].position(rv)
		if e := s.missing(w, pos); e != nil {
			why := fmt.Sprintf("it says that everything up to %s has been delivered, but not %s", rv, e.text())
			return s.violation(s.absence(e.kind), i, why)
		}
		w.pos = max(w.pos, pos)
		return nil
	})
}

// missing returns the first change up to pos that had to be delivered and was not. With
// Latest that is only the last one of an object that is known otherwise.
func (s *source) missing(w *world, pos int) *entry {
	t := s.timelines[w.epoch]
	last := map[types.NamespacedName]*entry{}
	between := t[min(w.pos, pos):pos]
	for i, e := range between {
		_, known := w.known[e.key]
		switch {
		case e.kind == "" || w.pos+i < w.reached[e.key]:
		case !known && s.opts.Latest && (!e.exists || t.ends(pos, e)):
			delete(last, e.key) // it came and went
		case !known && !e.exists && (s.opts.Selected != nil || !s.obscure(e.key)): // its end means nothing
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

// absence is the promise that is broken where a change is not delivered.
func (s *source) absence(kind stream.Type) string {
	switch {
	case s.resuming:
		return resumed
	case kind == stream.Deleted:
		return removed
	}
	return complete
}

// end holds a source to what its events come to when there are no more.
func (s *source) end() *Violation {
	i := len(s.events)
	switch {
	case !s.opts.Settled:
		return nil
	case s.phase != live:
		return s.violation(announced, i, "SYNCED never came"+s.in())
	}
	if v := s.try(func(w *world) *Violation {
		last := s.timelines[len(s.timelines)-1]
		if w.epoch < len(s.timelines)-1 {
			if maps.Equal(w.known, last.at(len(last))) {
				return nil
			}
			return s.violation(monotonic, i, "the server has gone back in time, and no GAP says so"+s.in())
		}
		if e := s.missing(w, len(last)); e != nil {
			return s.violation(s.absence(e.kind), i, e.text()+" is missing"+s.in())
		}
		return nil
	}); v != nil {
		return v
	}
	return s.unresolved(i)
}

// unresolved reports a pending object of which nothing has been delivered.
func (s *source) unresolved(i int) *Violation {
	if len(s.pending) == 0 || len(s.timelines) > 1 { // it may be of a past that is no more
		return nil
	}
	uid := slices.Sorted(maps.Keys(s.pending))[0]
	return s.violation(resumed, i, fmt.Sprintf("the object with uid %q may have been delivered before, and nothing says how it is now", uid))
}

// joint: SYNCED is for several namespaces, each of which is live before it.
func (s *source) joint() bool { return len(s.sources) > 1 }

func (s *source) in() string {
	if s.namespace == "" {
		return ""
	}
	return " in " + s.namespace
}
