package stream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// fanIn merges the workers of several namespaces into the loop's goroutine. Each worker has a goroutine, and changes
// the index and delivers events only in its turn. The loop's goroutine grants one turn at a time and waits for its end,
// so all fields belong to the loop's goroutine.
type fanIn struct {
	*activeRun
	members       map[string]*member // by namespace; also those that are no longer watched
	running       sync.WaitGroup
	turns         chan turn
	ends          chan *member
	started       int  // number of namespaces that have been watched so far
	over          bool // UntilClosed: a member has ended
	pendingSynced bool // SYNCED must be emitted when all members are synced
}

// member is a namespace that is or was watched.
type member struct {
	worker *worker
	cancel context.CancelCauseFunc
	state  memberState
	synced bool
	err    error // the result of its goroutine
	panics any   // the value that its goroutine panicked with
}

type memberState int

const (
	watched memberState = iota
	leaving             // no longer wanted; its goroutine has not ended yet
	parked              // no longer watched
	ended               // its goroutine has ended, because of UntilSynced or UntilClosed
)

// turn is the turn of a member. It lasts from its receipt by loop until over is closed.
type turn struct {
	member  *member
	events  chan Event
	results chan error // one for each event
	over    chan struct{}
}

// enter adds a parked member for each namespace of the position that the run resumes from.
func (f *fanIn) enter() {
	p := &f.from.position
	enter := func(namespace string) *worker {
		m := f.members[namespace]
		if m == nil {
			m = &member{state: parked, worker: f.newWorker(namespace, nil)}
			rv, begun := p.ResourceVersions[namespace]
			m.worker.report.begun, m.worker.report.rewound = begun, p.Rewound
			m.worker.report.setPosition(rv, p.Partial, p.Unclean)
			f.members[namespace] = m
		}
		return m.worker
	}
	for _, o := range p.Objects {
		if o.Namespace != "" {
			enter(o.Namespace).index.Enter(entryOf(o))
		}
	}
	for n := range p.ResourceVersions {
		if n != "" {
			enter(n)
		}
	}
	p.Objects = nil
	if f.publish(); f.hosted.Namespaces != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rest = *p
	}
}

// loop runs all workers until all have ended, or one with an error, and returns that error. If a worker panics, in
// Select for example, so does loop.
func (f *fanIn) loop(ctx context.Context, namespaces []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		cancel(errLeft) // no effect if the caller's ctx has ended
		f.running.Wait()
		for _, m := range f.members { // also those that ended after the last receive from ends
			if m.panics != nil {
				panic(m.panics)
			}
		}
	}()
	for _, n := range namespaces {
		f.start(ctx, n)
	}
	if f.from.kind != startFrom {
		f.from = origin{} // for namespaces added later
	}
	for !f.isOver() {
		select {
		case t := <-f.turns:
			if err := f.serve(t); err != nil {
				return err
			}
		case m := <-f.ends:
			if err := f.end(ctx, m); err != nil {
				return err
			}
		case <-f.hosted.Namespaces.Changed():
			f.change(ctx)
			if err := f.sync(); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// isOver reports whether the run is complete: every member has ended, or with UntilClosed one has and the snapshots of
// the others have been delivered.
func (f *fanIn) isOver() bool {
	if f.over && f.isSynced() {
		return true
	}
	for _, m := range f.members {
		if m.state == watched || m.state == leaving {
			return false
		}
	}
	return f.hosted.Namespaces == nil // else more may come
}

// isSynced reports whether every watched member is synced. If none is watched, at least one must have been synced when
// it ended.
func (f *fanIn) isSynced() (synced bool) {
	for _, m := range f.members {
		if m.state == watched && !m.synced {
			return false
		}
		synced = synced || m.synced && (m.state == watched || m.state == ended)
	}
	return synced
}

// start watches a namespace, from where its last worker stopped.
func (f *fanIn) start(ctx context.Context, namespace string) {
	m := f.members[namespace]
	if m == nil {
		m = &member{}
		f.members[namespace] = m
	}
	events, results := make(chan Event), make(chan error)
	w := f.newWorker(namespace, func(ev Event) error {
		events <- ev // serve listens until the turn is over
		return <-results
	})
	if m.cancel == nil {
		f.started++
	}
	w.turn = func(ctx context.Context, deliver func() error) error {
		t := turn{member: m, events: events, results: results, over: make(chan struct{})}
		select {
		case f.turns <- t:
			defer close(t.over)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return deliver()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	first := w.begin(f.startOf(w, m.worker)) // before publish, which lets Position see w
	runCtx := ctx
	ctx, m.cancel = context.WithCancelCause(ctx)
	m.worker, m.state, m.synced, m.err = w, watched, false, nil
	f.publish()
	f.running.Go(func() {
		m.panics = "a worker's goroutine called runtime.Goexit"
		defer func() {
			if p := recover(); p != nil {
				m.panics = p
			}
			select {
			case f.ends <- m:
			case <-runCtx.Done():
			}
		}()
		m.err = w.loop(ctx, first)
		m.panics = nil
	})
}

// startOf returns where w begins: where the last worker of its namespace stopped or, if there was none, where the run
// begins.
func (f *fanIn) startOf(w, last *worker) origin {
	if last == nil {
		return f.from
	}
	p := last.report.position()
	w.index, w.infers, w.report.index = last.index, last.infers, last.index
	if rv, ok := f.from.position.ResourceVersions[""]; ok {
		p.ResourceVersions[""] = rv
	}
	return origin{kind: startFrom, position: p, snapshot: f.from.snapshot}
}

// serve emits the events of a worker's turn.
func (f *fanIn) serve(t turn) (err error) {
	for {
		select {
		case ev := <-t.events:
			if f.admit(t.member, &ev) {
				err = f.handle(ev, t)
			} else {
				ev.Ack() // it is not delivered
				t.results <- nil
			}
		case <-t.over:
			return err
		}
	}
}

// handle emits ev and sends the result to the worker, even if the loop body panics: the worker must not wait for ever.
func (f *fanIn) handle(ev Event, t turn) (err error) {
	err = errLeft
	defer func() { t.results <- err }()
	err = f.emit(ev)
	return err
}

// admit reports whether ev is delivered. The SYNCED of all members are merged into one.
func (f *fanIn) admit(m *member, ev *Event) bool {
	m.synced = ev.Type == Synced || m.synced && ev.Type != Gap
	if ev.Type != Synced {
		f.pendingSynced = f.pendingSynced || !m.synced
		return true
	}
	if f.started > 1 {
		ev.Namespace, ev.ResourceVersion = "", "" // each snapshot has its own version
	}
	f.pendingSynced = !f.isSynced()
	return !f.pendingSynced
}

// sync emits a pending SYNCED if the namespaces that it waited for are no longer watched.
func (f *fanIn) sync() error {
	if !f.pendingSynced || !f.isSynced() {
		return nil
	}
	f.pendingSynced = false
	return f.emit(Event{Type: Synced, Resource: f.resource})
}

// end handles the end of a member's goroutine. An error ends the run.
func (f *fanIn) end(ctx context.Context, m *member) error {
	before := m.state
	m.state = parked
	namespace := m.worker.namespace
	var refused *RequestError
	switch {
	case m.panics != nil:
		return errLeft // loop panics
	case before == leaving:
		if slices.Contains(f.hosted.Namespaces.Get(), namespace) {
			f.start(ctx, namespace)
		}
	case f.hosted.Namespaces.HandlesRefusal() && errors.As(m.err, &refused) && apierrors.IsForbidden(m.err):
		f.publish()
		f.hosted.Namespaces.Refuse(namespace, m.err)
	case m.err != nil:
		return m.err
	default:
		m.state = ended
		f.over = f.over || f.run.Until == UntilClosed
	}
	f.publish()
	return f.sync()
}

// change starts and stops members after the namespaces have changed.
func (f *fanIn) change(ctx context.Context) {
	wanted := f.hosted.Namespaces.Get()
	for n, m := range f.members {
		if m.state == watched && !slices.Contains(wanted, n) {
			m.state = leaving
			m.cancel(errLeft)
		}
	}
	for _, n := range wanted {
		if m := f.members[n]; m == nil || m.state == parked {
			f.start(ctx, n)
		}
	}
	f.publish()
}

// publish lets Status and Position see the workers.
func (f *fanIn) publish() {
	var active, idle []*worker
	for _, m := range f.members {
		switch {
		case m.worker == nil:
		case m.state == parked:
			idle = append(idle, m.worker)
		default:
			active = append(active, m.worker)
		}
	}
	slices.SortFunc(active, func(a, b *worker) int { return cmp.Compare(a.namespace, b.namespace) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workers, f.parked = active, idle
}
