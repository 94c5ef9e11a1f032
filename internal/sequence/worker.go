package sequence

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// Worker makes the sequence of one namespace, or of the cluster: it does what its State says, passes the result to the
// protocol, and carries out the Outputs. It has no goroutine of its own but to read a page ahead. One goroutine at a
// time may call Begin, Continue, Enter, Stand and Run; any may call Status and Position.
type Worker struct {
	target   *Target
	run      *Run
	state    protocol.State
	requests requests
	inbox    inbox
	pacing   pacing
	delivery delivery
	report   report
}

// New returns a Worker for a namespace, or for the whole cluster if that is empty.
func New(t *Target, r *Run, namespace string, d Door) *Worker {
	w := &Worker{target: t, run: r, state: protocol.Stopped{}}
	log := logger{t.Logger, t.Resource.String(), namespace}
	var progress *acks.Progress
	var changed func(objects.Version, bool)
	if r.Session != nil {
		progress = r.Session.Progress(namespace)
		changed = func(v objects.Version, gone bool) { progress.Note(acks.Change{Version: v, Gone: gone}) }
	}
	if t.Fake {
		d.Emit = w.readingAhead(d.Emit)
	}
	known := index.New(changed)
	w.report.namespace, w.report.changed, w.report.objects = namespace, t.Hooks.StatusChanged, known.Len
	w.requests = requests{
		scope: scope{t, namespace, log}, inbox: &w.inbox, knows: known.HasName, buffered: progress.WritesAhead,
		reader: client.For(r.Client, t.Resource.GroupVersionResource, namespace),
	}
	w.pacing = pacing{
		giveUpAfter: t.Requests.GiveUpAfter, between: t.Between, shared: r.Pace, lists: r.Lists, report: &w.report,
		log: log,
	}
	w.delivery = delivery{
		target: t, door: d, log: log, inbox: &w.inbox, index: known, progress: progress, report: &w.report,
		bookmarks: r.Bookmarks, everyBookmark: r.EveryBookmark,
	}
	w.report.restart("", extent{})
	return w
}

// Enter makes an object known: it was delivered by an earlier run.
func (w *Worker) Enter(o checkpoint.Object) { w.delivery.index.Enter(entryOf(o)) }

// Stand says where the Worker stands before it runs for the first time: at p, whose Objects are not entered.
func (w *Worker) Stand(p *checkpoint.Position) {
	rv, begun := p.ResourceVersions[w.report.namespace]
	w.report.restart(rv, extent{begun: begun, partial: p.Partial, unclean: p.Unclean, rewound: p.Rewound})
}

// Begin lets the next Run begin at from. It takes over the Objects of its Position.
func (w *Worker) Begin(from Origin) {
	b, begun := protocol.Beginning{Version: from.After}, false
	if p := from.Position; p != nil {
		for _, o := range p.Objects {
			w.Enter(o)
		}
		p.Objects = nil // they take much memory, and the index has them now
		b = Beginning(from, w.report.namespace, w.delivery.index.All())
		_, begun = p.ResourceVersions[w.report.namespace]
	}
	rules := w.target.rules(w.run, from)
	w.delivery.infers = w.delivery.infers || from.Infers(w.report.namespace)
	w.requests.restart()
	w.pacing.restart()
	w.delivery.upToDate()
	w.report.restart(b.Version,
		extent{begun: begun && !b.Moved, partial: rules.Partial, unclean: rules.Unclean, rewound: b.Rewound})
	w.state = protocol.Start(rules, b)
}

// Continue lets the next Run begin where the Worker stands. The run began at from.
func (w *Worker) Continue(from Origin) {
	p := w.report.delivered()
	if from.Position != nil {
		if rv, ok := from.Position.ResourceVersions[""]; ok {
			p.ResourceVersions[""] = rv
		}
	}
	w.Begin(Origin{Position: &p, Snapshot: from.Snapshot})
}

// Beginning returns where the sequence of a namespace begins at the Position of an Origin. The objects of the Position
// are known.
func Beginning(from Origin, namespace string, known []objects.Version) protocol.Beginning {
	p := from.Position
	b := protocol.Beginning{Rewound: p.Rewound}
	b.Version, b.Moved = p.At(namespace)
	b.From = cmp.Or(b.Version, p.ResourceVersions[""])
	_, watchedBefore := p.ResourceVersions[namespace]
	// A position without entries does not say which namespaces were watched.
	b.Begun = b.Version == "" &&
		(watchedBefore || len(known) > 0 || p.Unclean || p.Partial && len(p.ResourceVersions) == 0)
	if from.Snapshot { // the differences were asked for, so they are no gap, unless the index lacks something
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
	for _, e := range known {
		atLeast(e.ResourceVersion)
	}
	return b
}

// Namespace returns the namespace, which is empty for the whole cluster.
func (w *Worker) Namespace() string { return w.report.namespace }

// Status returns what the Worker is doing.
func (w *Worker) Status() Status { return w.report.get() }

// Position returns how far the sequence has been delivered. Objects that are being delivered count as delivered.
func (w *Worker) Position() checkpoint.Position {
	p := w.report.delivered()
	for _, e := range w.delivery.index.All() {
		p.Objects = append(p.Objects, objectOf(e))
	}
	return p
}

// Run runs until the sequence ends, and returns why.
func (w *Worker) Run(ctx context.Context) (err error) {
	defer func() { w.report.stopped(err) }()
	defer func() { w.inbox = inbox{} }()
	defer w.requests.disconnect()
	defer w.pacing.endSlot()
	defer w.requests.dropPageAhead()
	w.reportState(ctx, nil, nil, w.state)
	carry := w.delivery.carrier(ctx)
	for {
		if end, ok := w.state.(protocol.Stopped); ok {
			return w.target.Errors.End(end)
		}
		if err := w.pacing.takeSlot(ctx, w.state); err != nil {
			return err
		}
		in, err := w.perform(ctx, carry)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx) // in only reflects the cancellation
		}
		if err = w.step(ctx, in, carry); err != nil {
			return err
		}
	}
}

// step goes on to the next State, and carries out the Outputs on the way there.
func (w *Worker) step(ctx context.Context, in protocol.Input, carry carryOut) error {
	w.noteHealth(in)
	next, out := protocol.Step(w.state, in)
	w.noteList(in, next)
	switch _, page := in.(protocol.Page); next.(type) {
	case protocol.ReadingInitial, protocol.Streaming:
	case protocol.Listing, protocol.Connecting:
		if !page { // after a page only the watch of connectEarly is open
			w.requests.disconnect()
		}
	default:
		w.requests.disconnect()
	}
	w.reportState(ctx, w.state, in, next)
	if err := w.markRewound(ctx, next, out); err != nil {
		return err
	}
	if s, ok := next.(protocol.Listing); ok {
		if _, page := in.(protocol.Page); page && w.pacing.mayReadAhead() {
			w.requests.readPageAhead(ctx, s.Token(), w.pacing.timeout(pageTimeout, s.Memory.Failures()))
		}
	}
	if err := carry(&out); err != nil {
		return err
	}
	if m, ok := protocol.Recall(next); ok {
		w.delivery.moved(m)
	} else if end, ok := next.(protocol.Stopped); ok && end.Gap.Reason == protocol.GapUnordered { // FailOnGap
		w.delivery.unresumable()
	}
	w.state = next
	return nil
}

// perform does what the State requires and returns the result. While it delivers events, the State moves.
func (w *Worker) perform(ctx context.Context, carry carryOut) (protocol.Input, error) {
	if s, ok := w.state.(protocol.Streaming); ok {
		return w.deliverEvents(ctx, s, carry)
	}
	defer w.pacing.awaiting()()
	m, _ := protocol.Recall(w.state)
	switch s := w.state.(type) {
	case protocol.Listing:
		if w.target.Fake {
			return w.listAndConnect(ctx, s, m)
		}
		return w.list(ctx, s, m), nil
	case protocol.Connecting:
		return w.pacing.request(ctx, m, !s.Initial(), func() (protocol.Input, time.Duration) {
			return w.requests.connect(ctx, m.Version(), s.Initial(), w.pacing.timeout(openTimeout, m.Failures()))
		}), nil
	case protocol.ReadingInitial:
		return w.requests.receiveInitial(ctx), nil
	case protocol.Probing:
		timeout := probeTimeout
		if s.Whole() {
			timeout = pageTimeout
			w.pacing.checking()
		}
		in := w.pacing.request(ctx, m, false, func() (protocol.Input, time.Duration) {
			return w.requests.probe(ctx, s, w.pacing.timeout(timeout, 0))
		})
		if page, ok := in.(protocol.Page); ok && s.Whole() {
			page.Differs = w.delivery.compare(s.Token() == "", page.Token == "")
			in = page
		}
		return in, nil
	case protocol.Waiting:
		return w.pacing.wait(ctx, s), nil
	}
	return nil, nil // protocol.Step makes an error of it
}

// deliverEvents delivers the events of the watch until it receives another Input. It does for each event what step
// does, without an allocation.
func (w *Worker) deliverEvents(ctx context.Context, s protocol.Streaming, carry carryOut) (protocol.Input, error) {
	defer func() { w.state = s }()
	var out protocol.Outputs
	for {
		timeout, otherwise := w.awaited(&s)
		if timeout <= 0 {
			return otherwise, nil // whatever has arrived meanwhile
		}
		f, other := w.requests.receive(ctx, timeout, otherwise, s.Memory.Version(), s.MaySkip())
		switch other.(type) {
		case nil:
		case protocol.Silent:
			return protocol.Silent{CheckDue: w.pacing.isCheckDue()}, nil
		default:
			return other, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if s.ConfirmedBy(f) {
			next, synced := protocol.Step(s, protocol.Continues{})
			streaming, ok := next.(protocol.Streaming)
			if !ok { // the run ends at SYNCED
				return protocol.Continues{}, nil
			}
			if err := carry(&synced); err != nil {
				return nil, err
			}
			s = streaming
		}
		w.noteUpToDate()
		shown := s.Doubted() || s.Memory.Server().Blind() != nil
		if out = s.Frame(f); shown != (s.Doubted() || s.Memory.Server().Blind() != nil) {
			w.reportState(ctx, nil, nil, s)
		}
		if w.delivery.commitsFor(out.Event) {
			w.requests.peek()
		}
		if err := carry(&out); err != nil {
			if wrong := (*index.Contradiction)(nil); errors.As(err, &wrong) {
				return w.contradicted(ctx, wrong, s.Doubted()), nil
			}
			return nil, err
		}
		w.delivery.moved(s.Memory)
	}
}

// awaited returns how long the watch may be silent, and what that means.
func (w *Worker) awaited(s *protocol.Streaming) (time.Duration, protocol.Input) {
	idle := w.target.Requests.IdleTimeout
	switch {
	case s.Unconfirmed(), s.Restarted():
		return w.requests.untilConfirmed(), protocol.Continues{}
	case s.Doubted():
		if rest := w.pacing.untilList(); rest < idle {
			return rest, protocol.Elapsed{}
		}
	}
	return idle, protocol.Silent{}
}

// reportState reports the State that follows s. pacing reports a Waiting, when its length is known.
func (w *Worker) reportState(ctx context.Context, s protocol.State, in protocol.Input, next protocol.State) {
	m, _ := protocol.Recall(next)
	var list time.Time
	if m.Server().Blind() != nil {
		list = w.pacing.nextCheck()
	}
	switch next := next.(type) {
	case protocol.Waiting:
		return
	case protocol.Streaming:
		w.pacing.watchingAgain(ctx, m.Version())
		if next.Doubted() && m.Server().Blind() == nil {
			list = time.Now().Add(max(w.pacing.untilList(), 0))
		}
	}
	_, wasListing := s.(protocol.Listing)
	_, page := in.(protocol.Page)
	w.report.state(next, wasListing && page, list)
}

// noteHealth notes what the result of the State says about the watch.
func (w *Worker) noteHealth(in protocol.Input) {
	_, watching := w.state.(protocol.Streaming)
	switch in := in.(type) {
	case protocol.Silent:
		if watching {
			w.pacing.answering()
		}
	case protocol.Closed:
		if in.After >= protocol.Healthy || in.Planned {
			w.noteUpToDate()
		}
		if !in.Planned {
			w.pacing.broken()
		}
	}
}

// noteList notes the lists that are read because the sequence is doubted. Without versions each is.
func (w *Worker) noteList(in protocol.Input, next protocol.State) {
	_, elapsed := in.(protocol.Elapsed)
	_, watching := w.state.(protocol.Streaming)
	m, _ := protocol.Recall(next)
	if elapsed && watching || m.Server().Versionless() && !w.pacing.hasListed() {
		w.pacing.listing()
	}
}

func (w *Worker) noteUpToDate() {
	w.delivery.upToDate()
	w.pacing.healthy()
}

// markRewound marks the position as rewound if the server has gone back in time, before GAP is delivered. A run that
// resumes from the position must report the rewind even if the server's versions have caught up by then. Namespaces
// that are not watched now, or whose watch is not open, are marked, too.
func (w *Worker) markRewound(ctx context.Context, next protocol.State, out protocol.Outputs) error {
	m, _ := protocol.Recall(next)
	rewound := m.Rewound() || out.Gap.Reused
	if end, ok := next.(protocol.Stopped); ok { // FailOnGap
		rewound = rewound || end.Gap.Reason == protocol.GapRewound
	}
	if !rewound {
		return nil
	}
	var others []*acks.Progress
	for _, one := range w.run.Workers() {
		if one == w || one.Status().State != Streaming {
			one.report.rewound()
			others = append(others, one.delivery.progress)
		}
	}
	return w.delivery.progress.Rewound(ctx, others...)
}
