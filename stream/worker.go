package stream

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// worker drives the protocol through one run, for one namespace or the cluster: it does what the State says, passes the
// result to protocol.Step, and delivers the Outputs. It has no goroutine of its own.
type worker struct {
	*activeRun
	namespace string
	reader    client.Reader
	index     *index.Index
	progress  *acks.Progress // nil without a checkpoint
	conn      *connection    // nil while no watch is open
	report    report         // for Status and Position
	delivery
	snapshot
	health
}

// delivery is how a worker's events reach the caller.
type delivery struct {
	emit    func(Event) error                         // an error ends the run
	turn    func(context.Context, func() error) error // runs a function in a turn; nil for a lone worker
	movesTo string                                    // the version of the sequence after the current event
	// infers: a GAP has been delivered in this run, so that what any later snapshot adds is inferred.
	infers bool
}

// snapshot is the snapshot that is being read.
type snapshot struct {
	listSlot  *host.Slot           // from hosted.Lists; may be nil
	items     []object             // of the last page, or initial events to deliver together
	itemBytes int64                // the memory of these initial events, with a checkpoint
	mode      protocol.Mode        // of the initial events in items
	lastName  types.NamespacedName // the greatest name on the pages so far
	nextPage  *pageAhead           // nil if no page is read ahead
	pages     pageSizes
}

// health records when requests succeeded and failed.
type health struct {
	upToDateAt time.Time     // when the sequence was last known to be up to date
	failedFor  time.Duration // time spent on failed requests and waits since a watch last was healthy
	warned     bool          // a failure was logged, and no recovery since

	recovered   <-chan struct{} // closed when a request of any Stream of the client succeeds again
	woken       bool            // the last wait ended because of that
	inVain      int             // retries because of that which failed, since the watch last was healthy
	ignoreUntil time.Time       // until then, waits do not end because of that
}

// newWorker returns a worker for a namespace, or for the whole cluster if that is empty.
func (r *activeRun) newWorker(namespace string, emit func(Event) error) *worker {
	w := &worker{activeRun: r, namespace: namespace}
	w.delivery.emit, w.upToDateAt = emit, time.Now()
	w.report.status = Status{State: Idle, Namespace: namespace, Since: w.upToDateAt}
	var changed func(index.Entry, bool)
	if r.session != nil {
		w.progress = r.session.Progress(namespace)
		changed = func(e index.Entry, gone bool) { w.progress.Note(acks.Change{Version: versionOf(e), Gone: gone}) }
	}
	w.index = index.New(changed)
	w.report.index = w.index
	w.reader = client.For(r.dynamic, r.resource.GroupVersionResource, namespace)
	return w
}

// begin returns the first State of the worker.
func (w *worker) begin(from origin) protocol.State {
	r := w.rules(from)
	b, begun := protocol.Beginning{Version: from.version}, false
	if from.kind == startFrom {
		b = w.enterPosition(from)
		_, begun = from.position.ResourceVersions[w.namespace]
	}
	w.report.begun, w.report.rewound = begun && !b.Moved, b.Rewound
	w.report.setPosition(b.Version, r.Partial, r.Unclean)
	return protocol.Start(r, b)
}

// enterPosition enters the worker's objects of a position into the index, and returns where the protocol begins.
func (w *worker) enterPosition(from origin) protocol.Beginning {
	p := from.position
	for _, o := range p.Objects {
		w.index.Enter(entryOf(o))
	}
	b := protocol.Beginning{Rewound: p.Rewound}
	b.Version, b.Moved = p.At(w.namespace)
	b.From = cmp.Or(b.Version, p.ResourceVersions[""])
	_, watchedBefore := p.ResourceVersions[w.namespace]
	// A position without entries does not say which namespaces were watched.
	b.Begun = b.Version == "" &&
		(watchedBefore || w.index.Len() > 0 || p.Unclean || p.Partial && len(p.ResourceVersions) == 0)
	if from.snapshot { // the differences were asked for, so they are no gap, unless the index lacks something
		b.Begun = b.Begun || p.Unclean || p.Partial
		b.Version = ""
	}
	atLeast := func(rv string) {
		if rv != "" && (b.Version == "" || protocol.Before(b.Version, rv)) &&
			(b.Minimum == "" || protocol.Before(b.Minimum, rv)) {
			b.Minimum = rv
		}
	}
	for _, rv := range p.ResourceVersions {
		if b.Version == "" {
			atLeast(rv)
		}
	}
	for _, e := range w.index.All() {
		atLeast(e.Version)
	}
	return b
}

// loop runs until the sequence ends and returns why.
func (w *worker) loop(ctx context.Context, s protocol.State) (err error) {
	defer func() { w.report.stopped(w.options.Trace, err) }()
	defer func() { w.disconnect() }()
	defer w.stopListing()
	defer w.dropPageAhead()
	w.reportState(ctx, nil, nil, s)
	for {
		if end, ok := s.(protocol.Stopped); ok {
			return errorAtEnd(end)
		}
		if err := w.takeListSlot(ctx, s); err != nil {
			return err
		}
		var in protocol.Input
		if watching, ok := s.(protocol.Streaming); ok {
			s, in, err = w.deliverEvents(ctx, watching)
		} else {
			w.listSlot.Await()
			in = w.perform(ctx, s)
			w.listSlot.Answered()
		}
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx) // in only reflects the cancellation
		}
		w.noteHealth(s, in)
		next, outputs := protocol.Step(s, in)
		switch next.(type) {
		case protocol.ReadingInitial, protocol.Streaming:
		default:
			w.disconnect()
		}
		w.reportState(ctx, s, in, next)
		if err = w.markRewound(ctx, next, outputs); err != nil {
			return err
		}
		w.readPageAhead(ctx, next, in)
		for _, o := range outputs {
			if err = w.deliverOutput(ctx, o); err != nil {
				return err
			}
		}
		if m, ok := next.Recall(); ok {
			w.reportPosition(m)
		}
		s = next
	}
}

// reportState reports the State that follows s. wait reports a Waiting, when its length is known.
func (w *worker) reportState(ctx context.Context, s protocol.State, in protocol.Input, next protocol.State) {
	switch next := next.(type) {
	case protocol.Waiting:
		return
	case protocol.Streaming:
		if _, ok := s.(protocol.Streaming); ok {
			return // one of many events: the State is the same
		}
		if w.warned {
			w.warned = false
			w.options.Logger.InfoContext(ctx, "watching again",
				"resource", w.resource.String(), "namespace", w.namespace, "resourceVersion", next.Version())
		}
	}
	_, wasListing := s.(protocol.Listing)
	_, page := in.(protocol.Page)
	w.report.state(w.options.Trace, next, wasListing && page)
}

// perform does what the State requires and returns the result.
func (w *worker) perform(ctx context.Context, s protocol.State) protocol.Input {
	switch s := s.(type) {
	case protocol.Listing:
		return w.request(ctx, s.Memory, func() protocol.Input { return w.list(ctx, s.Token(), s.Failures()) })
	case protocol.Connecting:
		return w.request(ctx, s.Memory, func() protocol.Input { return w.connect(ctx, s) })
	case protocol.ReadingInitial:
		if w.conn.silence > streamedTimeout {
			return protocol.Silent{}
		}
		f, other := w.conn.receive(ctx, markerTimeout)
		if other == nil {
			return f
		}
		return other
	case protocol.Probing:
		return w.request(ctx, s.Memory, func() protocol.Input { return w.probe(ctx) })
	case protocol.Waiting:
		return w.wait(ctx, s)
	}
	return nil
}

// deliverEvents delivers the events of the watch until it receives another Input. It returns the State before that one.
func (w *worker) deliverEvents(ctx context.Context, s protocol.Streaming) (protocol.State, protocol.Input, error) {
	// Two functions for all events, because a new one for each would take memory.
	var out protocol.EmitEvent
	change := func(c index.Change) error { return w.deliverChange(ctx, c, w.conn.last.object, false) }
	inTurn := func() error { return w.deliverEvent(ctx, out, change) }
	for {
		w.conn.skipped.allow(s.Version(), w.options.Trace.FrameReceived == nil && s.MaySkip())
		f, other := w.conn.receive(ctx, w.options.Requests.IdleTimeout)
		switch {
		case ctx.Err() != nil || other != nil:
			return s, other, nil
		case f.Kind.IsBookmark():
			return s, f, nil
		}
		w.noteUpToDate()
		var emits bool
		if out, emits = s.Advance(f); emits {
			if err := w.writeAheadOfEvent(ctx, w.conn.last, out); err != nil { // not in a turn: others need not wait
				return s, nil, err
			}
			if err := w.inTurn(ctx, inTurn); err != nil {
				return s, nil, err
			}
		}
		w.reportPosition(s.Memory)
	}
}

// reportPosition reports how far everything has been delivered. No version can be resumed from inside a snapshot. Until
// GAP is emitted, the position stays before the gap.
func (w *worker) reportPosition(m protocol.Memory) {
	if m.Resumable() {
		w.report.setPosition(m.Version(), m.Partial(), m.Unclean())
		w.pass()
	}
}

// noteHealth updates the health after the result of a State.
func (w *worker) noteHealth(s protocol.State, in protocol.Input) {
	_, watching := s.(protocol.Streaming)
	switch in := in.(type) {
	case protocol.Frame:
		if watching {
			w.noteUpToDate()
		}
	case protocol.Silent:
		if watching {
			w.failedFor = 0
		}
	case protocol.Closed:
		if in.After >= protocol.Healthy || in.Planned {
			w.noteUpToDate()
		}
		if !in.Planned {
			w.pace.Broken()
		}
	}
}

func (w *worker) noteUpToDate() { w.upToDateAt, w.failedFor, w.inVain = time.Now(), 0, 0 }

// takeListSlot takes a slot while a snapshot is read and delivered, to bound the memory of pages that wait for
// delivery. It gives the slot up before any other state, such as the wait after a failure.
func (w *worker) takeListSlot(ctx context.Context, s protocol.State) error {
	reads := false
	switch s := s.(type) {
	case protocol.Listing, protocol.ReadingInitial:
		reads = true
	case protocol.Connecting:
		reads = s.Initial()
	}
	if !reads {
		w.stopListing()
		return nil
	}
	if _, ok := s.(protocol.ReadingInitial); ok || w.hosted.Lists == nil || !w.listSlot.IsOver() {
		return nil // a snapshot in progress continues, even if its slot is over
	}
	var err error
	w.listSlot, err = w.hosted.Lists.Take(ctx)
	return err
}

func (w *worker) stopListing() {
	w.listSlot.End()
	w.listSlot = nil
}

func (w *worker) disconnect() {
	if w.conn != nil {
		trace(w.options.Trace.WatchClosed, w.conn.close())
		w.conn = nil
	}
}

// errorAtEnd returns the error that the run yields last, or nil.
func errorAtEnd(s protocol.Stopped) error {
	switch {
	case s.Gap != nil:
		return &GapError{Reason: GapReason(s.Gap.Reason), From: s.Gap.From, Err: s.Err}
	case s.GaveUp.After > 0:
		return &GaveUpError{After: s.GaveUp.After, Err: s.Err}
	}
	return s.Err
}
