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
type lane struct {
	*segment
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
	emit  func(Event) error                         // an error ends the sequence
	turn  func(context.Context, func() error) error // gives it a turn among several lanes; nil for a lone one
	moves string                                    // the version that the event being delivered moves the sequence to
	// snapped: a snapshot has been delivered, or a gap has begun, so that what differs
	// in the next one is inferred.
	snapped bool
}

// snapshot is one that is being read.
type snapshot struct {
	reads    *run.Turn            // the turn to read it; nil without one
	items    []object             // of the page last read, or of initial events that are delivered together
	how      protocol.Mode        // how those are delivered
	furthest types.NamespacedName // the last name on the pages of the list so far
	nextPage *pageAhead           // nil if none is read ahead
}

// health is how requests have fared.
type health struct {
	knewAt  time.Time     // when everything that had happened was last known
	failing time.Duration // time in requests that failed, and in waits, since a watch last was healthy
	warned  bool          // a failure has been logged, and not its end
}

// newLane returns one for a namespace, or if that is empty the cluster.
func (g *segment) newLane(namespace string, emit func(Event) error) *lane {
	l := &lane{segment: g, namespace: namespace}
	l.delivery.emit, l.knewAt = emit, time.Now()
	l.report.status = Status{State: Idle, Namespace: namespace, Since: l.knewAt}
	if !g.options.NoIndex {
		l.index = index.New()
		l.report.index = l.index
	}
	if g.session != nil {
		l.progress = g.session.Progress(namespace)
		if l.index != nil {
			l.index.OnChange = func(e index.Entry, gone bool) {
				l.progress.Note(acks.Change{Object: known(e), Gone: gone})
			}
		}
		if g.from.kind == startNow || g.from.kind == startAfter {
			l.progress.DeferCommits()
		}
	}
	l.reader = client.For(g.dynamic, g.resource.GroupVersionResource, namespace)
	return l
}

// begin is the state that the lane starts in.
func (l *lane) begin(from Start) protocol.State {
	r := l.options.rules(from, l.fake, l.noStreamedLists.Load())
	b, begun := protocol.Beginning{Version: from.version}, false
	if from.kind == startFrom {
		b = l.enter(from)
		_, begun = from.position.ResourceVersions[l.namespace]
	}
	l.report.begun, l.report.rewound = begun && !b.Moved, b.Rewound
	l.report.reached(b.Version, r.Partial || r.NoIndex, r.Unclean)
	return protocol.Start(r, b)
}

// know enters an object that has been delivered before.
func (l *lane) know(o checkpoint.Object) {
	if l.index != nil && (l.namespace == "" || o.Namespace == l.namespace) {
		l.index.Enter(entryOf(o))
	}
}

// enter takes over what a position knows of this lane's objects.
func (l *lane) enter(from Start) protocol.Beginning {
	p := from.position
	for _, o := range p.Objects {
		l.know(o)
	}
	b := protocol.Beginning{Rewound: p.Rewound, From: p.ResourceVersions[""]}
	if b.Version, b.Moved = p.At(l.namespace); from.snapshot {
		b.Version = ""
	}
	_, here := p.ResourceVersions[l.namespace] // else it was never watched, unless nothing is kept of any
	b.Begun = b.Version == "" && (p.Unclean || p.Partial && (here || len(p.ResourceVersions) == 0))
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
	if l.index != nil {
		for e := range l.index.All() {
			atLeast(e.Version)
		}
	}
	return b
}

// loop runs until the sequence ends and returns why.
func (l *lane) loop(ctx context.Context, s protocol.State) (err error) {
	defer func() { l.report.stopped(l.options.Trace, err) }()
	defer func() { l.disconnect() }()
	defer l.stopListing()
	defer l.dropAhead()
	l.show(ctx, nil, nil, s)
	for {
		if end, ok := s.(protocol.Stopped); ok {
			return errorAtEnd(end)
		}
		if err := l.limitLists(ctx, s); err != nil {
			return err
		}
		l.reads.Await()
		in := l.act(ctx, s)
		l.reads.Answered()
		if ctx.Err() != nil {
			return context.Cause(ctx) // whatever in says, it is due to that
		}
		l.note(s, in)
		next, outputs := protocol.Step(s, in)
		switch next.(type) {
		case protocol.Replaying, protocol.Streaming:
		default:
			l.disconnect()
		}
		l.show(ctx, s, in, next)
		if err = l.withdraw(ctx, next, outputs); err != nil {
			return err
		}
		l.readPageAhead(ctx, next, in)
		for _, o := range outputs {
			if err = l.tellInTurn(ctx, o); err != nil {
				return err
			}
		}
		// Within a snapshot it is at no version; before a gap is told, still at that
		// before it, even if that is no more.
		if m, ok := next.Recall(); ok && m.Resumable() {
			l.report.reached(m.Version(), m.Incomplete(), m.Unclean())
			l.pass()
		}
		s = next
	}
}

// show reports the state that follows s. A wait is reported when its length is
// known.
func (l *lane) show(ctx context.Context, s protocol.State, in protocol.Input, next protocol.State) {
	switch next := next.(type) {
	case protocol.Waiting:
		return
	case protocol.Streaming:
		if _, ok := s.(protocol.Streaming); ok {
			return // event after event, nothing changes
		}
		if l.warned {
			l.warned = false
			l.options.Logger.InfoContext(ctx, "watching again", "resource", l.resource.String(), "namespace", l.namespace, "resourceVersion", next.Version())
		}
	}
	_, wasListing := s.(protocol.Listing)
	_, page := in.(protocol.Page)
	l.report.state(l.options.Trace, next, wasListing && page)
}

// act does what the state asks for and returns what came of it.
func (l *lane) act(ctx context.Context, s protocol.State) protocol.Input {
	switch s := s.(type) {
	case protocol.Listing:
		return l.list(ctx, s.Token(), s.Failures())
	case protocol.Connecting:
		return l.connect(ctx, s)
	case protocol.Replaying:
		if l.conn.silence.total > snapshotPatience {
			return protocol.Silent{}
		}
		return l.conn.receive(ctx, markerPatience)
	case protocol.Streaming:
		l.conn.passed.from(s.Version(), l.options.Trace.FrameReceived == nil && s.MaySkip())
		return l.conn.receive(ctx, l.options.IdleTimeout)
	case protocol.Probing:
		return l.probe(ctx)
	case protocol.Waiting:
		return l.wait(ctx, s)
	}
	return nil
}

// note keeps when things worked.
func (l *lane) note(s protocol.State, in protocol.Input) {
	_, watching := s.(protocol.Streaming)
	switch in := in.(type) {
	case protocol.Frame:
		if watching {
			l.knewAt, l.failing = time.Now(), 0
		}
	case protocol.Silent:
		if watching {
			l.failing = 0
		}
	case protocol.Closed:
		if in.After >= protocol.Healthy || in.Planned {
			l.knewAt, l.failing = time.Now(), 0
		}
	}
}

func (l *lane) wait(ctx context.Context, s protocol.Waiting) protocol.Input {
	bounds := backoff
	if s.Cause.Refused() {
		bounds = refusedBackoff
	}
	d, patience := max(l.between(bounds(s.Attempt)), s.Cause.RetryAfter), l.options.GiveUpAfter
	if patience > 0 {
		d = min(d, max(patience-l.failing, 0))
	}
	began := time.Now()
	l.report.waiting(l.options.Trace, s, began.Add(d))
	l.warned = true
	l.options.Logger.WarnContext(ctx, "trying again after a failure",
		"resource", l.resource.String(), "namespace", l.namespace, "after", d, "error", s.Cause.Err)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	if l.failing += time.Since(began); patience > 0 && l.failing >= patience {
		return protocol.GaveUp{After: l.failing}
	}
	return protocol.Elapsed{}
}

func (l *lane) disconnect() {
	if l.conn != nil {
		trace(l.options.Trace.WatchClosed, l.conn.close())
		l.conn = nil
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
