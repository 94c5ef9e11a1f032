package stream

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/run"
)

// lane drives the protocol through one range for one namespace, or the cluster:
// it does what the state says, feeds the result to step, and delivers what comes
// out. It has no goroutine of its own.
type lane struct {
	*segment
	namespace string
	client    dynamic.ResourceInterface
	emit      func(Event) error                         // an error ends the sequence
	turn      func(context.Context, func() error) error // gives it a turn among several lanes; nil for a lone one

	index   *index    // nil with IndexNone
	snapped bool      // a snapshot has been told, or a gap begun: what differs in the next one is inferred
	reads   *run.Turn // its turn to read a snapshot; nil if it has none

	moves    string               // the version that the event being told moves the sequence to
	items    []object             // of the page last read, or of initial events that are told together
	how      snapshot             // how those are to be told
	furthest types.NamespacedName // the last name on the pages of the list that is being read
	nextPage *pageAhead           // nil if none is read ahead
	conn     *connection          // while replaying or streaming
	knewAt   time.Time            // when everything that had happened was last known
	failing  time.Duration        // time in requests that failed, and in waits, since all was well
	warned   bool                 // the log has been told of a failure, and not of its end
	report   report               // for Status and Position

	progress *checkpoint.Progress // nil without a checkpoint
}

// newLane returns one for a namespace, or if that is empty the cluster.
func (g *segment) newLane(namespace string, emit func(Event) error) *lane {
	l := &lane{segment: g, namespace: namespace, emit: emit, knewAt: time.Now()}
	l.client = g.Stream.client
	if namespace != "" {
		l.client = g.Stream.client.Namespace(namespace)
	}
	l.report.status = Status{State: Idle, Namespace: namespace, Since: l.knewAt}
	if g.options.Index != IndexNone {
		l.index = newIndex()
		l.report.index = l.index
	}
	if g.session != nil {
		l.progress = g.session.Progress(namespace)
		if l.index != nil {
			l.index.noted = l.progress.Note
		}
		if g.from.kind == startNow || g.from.kind == startAfter {
			l.progress.Hold()
		}
	}
	return l
}

// begin is the state that the lane starts in.
func (l *lane) begin(from Start) state {
	r := l.options.rules(from, l.fake, l.noStreamedLists.Load())
	b, begun := beginning{rv: from.version}, false
	if from.kind == startFrom {
		b = l.enter(from)
		_, begun = from.position.ResourceVersions[l.namespace]
	}
	l.report.begun, l.report.rewound = begun && !b.moved, b.rewound
	l.report.reached(b.rv, r.partial || r.lossy, r.unclean)
	return start(r, b)
}

// know enters an object that has been delivered before.
func (l *lane) know(o checkpoint.Object) {
	if l.index != nil && (l.namespace == "" || o.Namespace == l.namespace) {
		l.index.enter(identity{namespacedName(o.Namespace, o.Name), o.UID, o.ResourceVersion})
	}
}

// enter takes over what a position knows of this lane's objects.
func (l *lane) enter(from Start) beginning {
	p := from.position
	for _, o := range p.Objects {
		l.know(o)
	}
	b := beginning{rewound: p.Rewound, from: p.ResourceVersions[""]}
	if b.rv, b.moved = p.At(l.namespace); from.snapshot {
		b.rv = ""
	}
	_, here := p.ResourceVersions[l.namespace] // else it was never watched, unless nothing is kept of any
	b.begun = b.rv == "" && (p.Unclean || p.Partial && (here || len(p.ResourceVersions) == 0))
	atLeast := func(rv string) {
		if rv != "" && (b.rv == "" || before(b.rv, rv)) && (b.floor == "" || before(b.floor, rv)) {
			b.floor = rv
		}
	}
	for _, rv := range p.ResourceVersions {
		if b.rv == "" {
			atLeast(rv)
		}
	}
	if l.index != nil {
		for i := range l.index.all() {
			atLeast(i.version)
		}
	}
	return b
}

// loop runs until the sequence ends and returns why.
func (l *lane) loop(ctx context.Context, s state) (err error) {
	defer func() { l.report.stopped(l.options.Trace, err) }()
	defer func() { l.disconnect() }()
	defer l.stopListing()
	defer l.dropAhead()
	l.show(ctx, nil, nil, s)
	for {
		if end, ok := s.(stopped); ok {
			return end.err
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
		next, outputs := step(s, in)
		switch next.(type) {
		case replaying, streaming:
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
		if m, ok := next.recall(); ok && !m.begun && m.gap == nil {
			l.report.reached(m.rv, m.partial || m.lossy, m.unclean)
			l.pass()
		}
		s = next
	}
}

// show reports the state that follows s. A wait is reported when its length is
// known.
func (l *lane) show(ctx context.Context, s state, in input, next state) {
	switch next := next.(type) {
	case waiting:
		return
	case streaming:
		if _, ok := s.(streaming); ok {
			return // event after event, nothing changes
		}
		if l.warned {
			l.warned = false
			l.options.Logger.InfoContext(ctx, "watching again", "resource", l.resource.String(), "namespace", l.namespace, "resourceVersion", next.rv)
		}
	}
	_, wasListing := s.(listing)
	_, page := in.(page)
	l.report.state(l.options.Trace, next, wasListing && page)
}

// act does what the state asks for and returns what came of it.
func (l *lane) act(ctx context.Context, s state) input {
	switch s := s.(type) {
	case listing:
		return l.list(ctx, s.token(), s.failures)
	case connecting:
		return l.connect(ctx, s)
	case replaying:
		if l.conn.waited > snapshotPatience {
			return silent{}
		}
		return l.conn.receive(ctx, markerPatience)
	case streaming:
		l.conn.passed.from(s.rv, l.options.Trace.FrameReceived == nil && !s.partial && !s.unversioned)
		return l.conn.receive(ctx, l.options.IdleTimeout)
	case probing:
		return l.probe(ctx)
	case waiting:
		return l.wait(ctx, s)
	}
	return nil
}

// note keeps when things worked.
func (l *lane) note(s state, in input) {
	_, watching := s.(streaming)
	switch in := in.(type) {
	case frame:
		if watching {
			l.knewAt, l.failing = time.Now(), 0
		}
	case silent:
		if watching {
			l.failing = 0
		}
	case closed:
		if in.after >= healthy || in.planned {
			l.knewAt, l.failing = time.Now(), 0
		}
	}
}

func (l *lane) wait(ctx context.Context, s waiting) input {
	bounds := backoff
	if isRefusal(s.cause) {
		bounds = refusedBackoff
	}
	d, patience := max(l.between(bounds(s.attempt)), s.atLeast), l.options.GiveUpAfter
	if patience > 0 {
		d = min(d, max(patience-l.failing, 0))
	}
	began := time.Now()
	l.report.waiting(l.options.Trace, s, began.Add(d))
	l.warned = true
	l.options.Logger.WarnContext(ctx, "trying again after a failure",
		"resource", l.resource.String(), "namespace", l.namespace, "after", d, "error", s.cause)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	if l.failing += time.Since(began); patience > 0 && l.failing >= patience {
		return gaveUp{l.failing}
	}
	return elapsed{}
}

func (l *lane) disconnect() {
	if l.conn != nil {
		l.conn.close()
		trace(l.options.Trace.WatchClosed, l.conn.end(l.namespace))
		l.conn = nil
	}
}
