package stream

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/run"
)

// lane drives the protocol through one range for one namespace, or the cluster:
// it does what the state says, feeds the result to step, and delivers what comes
// out. It has no goroutine of its own.
type worker struct {
	*activeRun
	namespace string
	reader    client.Reader
	index     *index.Index   // nil with NoIndex
	progress  *acks.Progress // nil without a checkpoint
	conn      *connection    // while replaying or streaming
	report    report         // for Status and Position
	delivery
	snapshot
	health
}

// delivery is how a worker's events reach the caller.
type delivery struct {
	emit    func(Event) error                         // an error ends the sequence
	turn    func(context.Context, func() error) error // gives it a turn among several lanes; nil for a lone one
	movesTo string                                    // the version that the event being delivered moves the sequence to
	// snapped: a snapshot has been delivered, or a gap has begun, so that what differs
	// in the next one is inferred.
	infers bool
}

// snapshot is one that is being read.
type snapshot struct {
	listTurn *run.Turn            // the turn to read it; nil without one
	items    []object             // of the page last read, or of initial events that are delivered together
	mode     protocol.Mode        // how those are delivered
	lastName types.NamespacedName // the last name on the pages of the list so far
	nextPage *pageAhead           // nil if none is read ahead
}

// health is how requests have fared.
type health struct {
	upToDateAt time.Time     // when everything that had happened was last known
	failedFor  time.Duration // time in requests that failed, and in waits, since a watch last was healthy
	warned     bool          // a failure has been logged, and not its end
}

// newLane returns one for a namespace, or if that is empty the cluster.
func (r *activeRun) newWorker(namespace string, emit func(Event) error) *worker {
	w := &worker{activeRun: r, namespace: namespace}
	w.delivery.emit, w.upToDateAt = emit, time.Now()
	w.report.status = Status{State: Idle, Namespace: namespace, Since: w.upToDateAt}
	if !r.options.NoIndex {
		w.index = index.New()
		w.report.index = w.index
	}
	if r.session != nil {
		w.progress = r.session.Progress(namespace)
		if w.index != nil {
			w.index.OnChange = func(e index.Entry, gone bool) {
				w.progress.Note(acks.Change{Object: objectOf(e), Gone: gone})
			}
		}
		if r.from.kind == startNow || r.from.kind == startAfter {
			w.progress.DeferCommits()
		}
	}
	w.reader = client.For(r.dynamic, r.resource.GroupVersionResource, namespace)
	return w
}

// begin is the state that the lane starts in.
func (w *worker) begin(from Start) protocol.State {
	r := w.options.rules(from, w.fake, w.noStreamedLists.Load())
	b, begun := protocol.Beginning{Version: from.version}, false
	if from.kind == startFrom {
		b = w.enterPosition(from)
		_, begun = from.position.ResourceVersions[w.namespace]
	}
	w.report.begun, w.report.rewound = begun && !b.Moved, b.Rewound
	w.report.setPosition(b.Version, r.Partial || r.NoIndex, r.Unclean)
	return protocol.Start(r, b)
}

// know enters an object that has been delivered before.
func (w *worker) enterObject(o checkpoint.Object) {
	if w.index != nil && (w.namespace == "" || o.Namespace == w.namespace) {
		w.index.Enter(entryOf(o))
	}
}

// enter takes over what a position knows of this lane's objects.
func (w *worker) enterPosition(from Start) protocol.Beginning {
	p := from.position
	for _, o := range p.Objects {
		w.enterObject(o)
	}
	b := protocol.Beginning{Rewound: p.Rewound, From: p.ResourceVersions[""]}
	if b.Version, b.Moved = p.At(w.namespace); from.snapshot {
		b.Version = ""
	}
	_, watchedBefore := p.ResourceVersions[w.namespace] // else it was never watched, unless nothing is kept of any
	b.Begun = b.Version == "" && (p.Unclean || p.Partial && (watchedBefore || len(p.ResourceVersions) == 0))
	atLeast := func(rv string) {
		if rv != "" && (b.Version == "" || protocol.Before(b.Version, rv)) && (b.Minimum == "" || protocol.Before(b.Minimum, rv)) {
			b.Minimum = rv
		}
	}
	for _, rv := range p.ResourceVersions {
		if b.Version == "" {
			atLeast(rv)
		}
	}
	if w.index != nil {
		for e := range w.index.All() {
			atLeast(e.Version)
		}
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
		if err := w.limitLists(ctx, s); err != nil {
			return err
		}
		w.listTurn.Await()
		in := w.perform(ctx, s)
		w.listTurn.Answered()
		if ctx.Err() != nil {
			return context.Cause(ctx) // whatever in says, it is due to that
		}
		w.noteHealth(s, in)
		next, outputs := protocol.Step(s, in)
		switch next.(type) {
		case protocol.Replaying, protocol.Streaming:
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
		// Within a snapshot it is at no version; before a gap is told, still at that
		// before it, even if that is no more.
		if m, ok := next.Recall(); ok && m.Resumable() {
			w.report.setPosition(m.Version(), m.Incomplete(), m.Unclean())
			w.pass()
		}
		s = next
	}
}

// show reports the state that follows s. A wait is reported when its length is
// known.
func (w *worker) reportState(ctx context.Context, s protocol.State, in protocol.Input, next protocol.State) {
	switch next := next.(type) {
	case protocol.Waiting:
		return
	case protocol.Streaming:
		if _, ok := s.(protocol.Streaming); ok {
			return // event after event, nothing changes
		}
		if w.warned {
			w.warned = false
			w.options.Logger.InfoContext(ctx, "watching again", "resource", w.resource.String(), "namespace", w.namespace, "resourceVersion", next.Version())
		}
	}
	_, wasListing := s.(protocol.Listing)
	_, page := in.(protocol.Page)
	w.report.state(w.options.Trace, next, wasListing && page)
}

// act does what the state asks for and returns what came of it.
func (w *worker) perform(ctx context.Context, s protocol.State) protocol.Input {
	switch s := s.(type) {
	case protocol.Listing:
		return w.list(ctx, s.Token(), s.Failures())
	case protocol.Connecting:
		return w.connect(ctx, s)
	case protocol.Replaying:
		if w.conn.silence.total > streamedTimeout {
			return protocol.Silent{}
		}
		return w.conn.receive(ctx, markerTimeout)
	case protocol.Streaming:
		w.conn.skipped.start(s.Version(), w.options.Trace.FrameReceived == nil && s.MaySkip())
		return w.conn.receive(ctx, w.options.IdleTimeout)
	case protocol.Probing:
		return w.probe(ctx)
	case protocol.Waiting:
		return w.wait(ctx, s)
	}
	return nil
}

// note keeps when things worked.
func (w *worker) noteHealth(s protocol.State, in protocol.Input) {
	_, watching := s.(protocol.Streaming)
	switch in := in.(type) {
	case protocol.Frame:
		if watching {
			w.upToDateAt, w.failedFor = time.Now(), 0
		}
	case protocol.Silent:
		if watching {
			w.failedFor = 0
		}
	case protocol.Closed:
		if in.After >= protocol.Healthy || in.Planned {
			w.upToDateAt, w.failedFor = time.Now(), 0
		}
	}
}

func (w *worker) wait(ctx context.Context, s protocol.Waiting) protocol.Input {
	bounds := backoff
	if s.Cause.Refused() {
		bounds = refusedBackoff
	}
	d, limit := max(w.jitter(bounds(s.Attempt)), s.Cause.RetryAfter), w.options.GiveUpAfter
	if limit > 0 {
		d = min(d, max(limit-w.failedFor, 0))
	}
	began := time.Now()
	w.report.waiting(w.options.Trace, s, began.Add(d))
	w.warned = true
	w.options.Logger.WarnContext(ctx, "trying again after a failure",
		"resource", w.resource.String(), "namespace", w.namespace, "after", d, "error", s.Cause.Err)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	if w.failedFor += time.Since(began); limit > 0 && w.failedFor >= limit {
		return protocol.GaveUp{After: w.failedFor}
	}
	return protocol.Elapsed{}
}

func (w *worker) disconnect() {
	if w.conn != nil {
		trace(w.options.Trace.WatchClosed, w.conn.close())
		w.conn = nil
	}
}

// errorAtEnd is what a sequence that has stopped yields last; nil for nothing.
func errorAtEnd(s protocol.Stopped) error {
	switch {
	case s.Gap != nil:
		return &GapError{Reason: GapReason(s.Gap.Reason), From: s.Gap.From, Err: s.Err}
	case s.GaveUp.After > 0:
		return &GaveUpError{After: s.GaveUp.After, Err: s.Err}
	}
	return s.Err
}
