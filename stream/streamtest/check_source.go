package streamtest

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

type phase int

const (
	initial phase = iota // the first snapshot is being told
	gap                  // the differences after a GAP are being told
	live                 // what happens is being told
)

// world is one way in which what was told can have come about. Mostly there is
// only one; there are more while epochs have not parted, or where a SYNCED has no
// version.
type world struct {
	epoch, pos int
	base       state // what was known when the last SYNCED was told, or at the start
}

// told is what a sequence has told of a name since then.
type told struct {
	ref
	exists bool
	index  int // of the event
}

// source follows the events of one namespace, or of the whole cluster.
type source struct {
	*checker
	namespace string
	opts      *CheckOptions
	timelines []timeline
	versioned bool // the history has versions
	joint     bool // SYNCED is for several

	phase  phase
	begins bool // nothing has been told yet; SYNCED may say that the watch is open
	worlds []world
	told   map[types.NamespacedName]told // over each world's base
	cursor string                        // the version up to which everything has been told, if it is known

	unknown  bool // what existed at the start is not known to the sequence: After
	silent   bool // what it knows is not known to us: Now, before SYNCED
	resuming bool // From, and neither a SYNCED nor a live event yet
	unacked  map[types.UID]told

	// Since the GAP or the start.
	opened        int // index of the GAP
	rewound, lost bool
	to            string // of the last GAP
	complained    bool   // about live events in it
	hidden        bool   // the GAP itself was missing, and so its reason is not known

	seen    map[seenKey]bool // live, since the last SYNCED
	skipped []skip           // jumped over, and may come late
}

type seenKey struct {
	kind stream.Type
	key  types.NamespacedName
	ref  ref
}

type skip struct {
	entry   *entry
	index   int // of the event that jumped
	promise error
}

func newSource(c *checker, h History, namespace string, opts *CheckOptions) *source {
	s := &source{checker: c, namespace: namespace, opts: opts, timelines: timelines(h, namespace, opts),
		joint: len(namespacesOf(opts)) > 1, told: map[types.NamespacedName]told{}, seen: map[seenKey]bool{}, opened: -1, silent: opts.Now}
	for _, ch := range h.Changes {
		s.versioned = s.versioned || ch.ResourceVersion != ""
	}
	for epoch := range s.timelines {
		s.worlds = append(s.worlds, world{epoch: epoch, base: state{}})
	}
	if opts.After == "" && opts.From == nil {
		return s
	}
	s.phase, s.begins, s.cursor = live, true, opts.startVersion(namespace)
	s.unknown, s.resuming = opts.After != "", opts.From != nil
	base := state{}
	if s.resuming {
		s.unacked = map[types.UID]told{}
		for _, o := range opts.From.Unacked {
			s.unacked[o.UID] = told{ref: ref{uid: o.UID, rv: o.ResourceVersion}}
		}
		for _, o := range opts.From.Objects {
			if namespace == "" || o.Namespace == namespace {
				base[o.NamespacedName] = ref{uid: o.UID, rv: o.ResourceVersion}
			}
		}
	}
	if s.cursor == "" { // the position is from within a snapshot, which fits no version
		s.phase, s.begins = initial, false
		for i := range s.worlds {
			s.worlds[i].base = base
		}
		return s
	}
	s.worlds = nil
	var fit []world
	for epoch, t := range s.timelines {
		from, to := 0, len(t)
		if pos, ok := t.position(s.cursor); ok {
			from, to = pos, pos
		}
		t.states(from, to, func(pos int, at state) {
			w := world{epoch: epoch, pos: pos, base: base}
			s.worlds = append(s.worlds, w)
			if s.resuming && at.equal(base) {
				fit = append(fit, w)
			}
		})
	}
	if len(fit) > 0 {
		s.worlds = fit
	}
	return s
}

func (s *source) event(i int, ev stream.Event) {
	switch ev.Type {
	case stream.Gap:
		s.gap(i, ev)
	case stream.Bookmark:
		s.bookmark(i, ev)
	default:
		if s.phase == live && ev.Inferred && !s.replaced(i, ev) && !s.replacedSometime(ev) {
			s.report(ErrSilent, i, "it is inferred, but there was no GAP")
			s.flush()
			s.open(i)
			s.hidden = true
		}
		switch {
		case s.phase == live && s.opts.Latest:
			s.latest(i, ev)
		case s.phase == live:
			s.live(i, ev)
		default:
			s.difference(i, ev)
		}
	}
	s.begins = false
}

// lookup is what the sequence knows of a name, as this world has it.
func (s *source) lookup(w world, key types.NamespacedName) (ref, bool) {
	if t, ok := s.told[key]; ok {
		return t.ref, t.exists
	}
	r, ok := w.base[key]
	return r, ok
}

// known is all that lookup finds.
func (s *source) known(w world) state {
	all := maps.Clone(w.base)
	for key, t := range s.told {
		if t.exists {
			all[key] = t.ref
		} else {
			delete(all, key)
		}
	}
	return all
}

func (s *source) tell(i int, ev stream.Event) {
	s.told[keyOf(ev.Object)] = told{ref: refOf(ev), exists: ev.Type != stream.Deleted, index: i}
}

func (s *source) open(i int) {
	if s.phase == live {
		s.rewound, s.lost, s.complained, s.hidden = false, false, false, false
		s.opened = i
	}
	s.phase = gap
}

var reasons = []stream.GapReason{stream.GapExpired, stream.GapRewound, stream.GapPoison, stream.GapUnversioned, stream.GapRestarted}

func (s *source) gap(i int, ev stream.Event) {
	switch g := ev.Gap; {
	case g == nil || !slices.Contains(reasons, g.Reason):
		s.report(ErrSilent, i, "it does not say why")
	case g.Duration < 0:
		s.report(ErrSilent, i, "its duration is negative")
	case g.From == "" && s.phase == live && s.versioned:
		s.report(ErrSilent, i, "it does not say from where")
	case s.opts.IndexNone && !g.HistoryLost:
		s.report(ErrSilent, i, "without an index history is lost, and it does not say so")
	case g.From != "" && s.phase == live:
		s.upTo(i, g.From, "GAP.From")
		if !older(g.From, s.cursor) {
			s.cursor = g.From
		}
	}
	s.flush()
	s.open(i)
	if g := ev.Gap; g != nil && g.Reason == stream.GapRewound {
		s.opened = i // and all may be told once more
	}
	if g := ev.Gap; g != nil {
		s.rewound = s.rewound || g.Reason == stream.GapRewound
		s.lost = s.lost || g.HistoryLost
		s.to = g.To
	}
	if s.opts.IndexNone {
		s.told = map[types.NamespacedName]told{}
		for j := range s.worlds {
			s.worlds[j].base = state{}
		}
	}
}

func (s *source) end() {
	if s.phase == live {
		if s.opts.Settled {
			s.settled()
		}
		s.flush()
		return
	}
	if s.opts.Settled {
		s.report(ErrSilent, len(s.events), "SYNCED never came"+s.in())
	}
}

// settled checks that nothing is left to tell in some world of the last epoch.
func (s *source) settled() {
	last := len(s.timelines) - 1
	w := slices.MaxFunc(s.worlds, func(a, b world) int { return a.epoch - b.epoch })
	for _, other := range s.worlds {
		if other.epoch == w.epoch && !s.opts.Latest && len(s.due(other, len(s.timelines[other.epoch]))) == 0 {
			w = other
		}
	}
	if w.epoch < last && !s.known(w).equal(s.timelines[last].at(len(s.timelines[last]))) {
		s.report(ErrBackInTime, len(s.events), "the server has gone back in time, and that was not told"+s.in())
		return
	}
	if w.epoch < last {
		return
	}
	if s.opts.Latest {
		s.addsUp(len(s.events), map[int]int{w.epoch: len(s.timelines[w.epoch])}, "nothing more comes")
		return
	}
	for _, e := range s.due(w, len(s.timelines[w.epoch])) {
		s.report(s.absence(e.kind), len(s.events), e.text()+" was not told"+s.in())
	}
}

func (s *source) in() string {
	if s.namespace == "" {
		return ""
	}
	return " in " + s.namespace
}

func refOf(ev stream.Event) ref {
	return ref{uid: ev.Object.GetUID(), rv: ev.Object.GetResourceVersion()}
}
