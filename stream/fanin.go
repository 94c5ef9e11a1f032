package stream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// fanIn merges the lanes of several namespaces into the ranging goroutine. Each
// lane has a goroutine; what it changes and delivers it does in its turn, which the
// ranging goroutine gives to one at a time and sees to its end. So all the fields are
// of that goroutine.
type fanIn struct {
	*activeRun
	members       map[string]*member // by namespace, those that are not watched any more too
	running       sync.WaitGroup
	turns         chan turn
	ends          chan *member
	started       int  // members that have been watched
	over          bool // AtFirstClose: one has ended
	pendingSynced bool // SYNCED is to follow what was delivered, once all are
}

// member is a namespace.
type member struct {
	worker *worker
	cancel context.CancelCauseFunc
	state  memberState
	synced bool
	err    error // that its goroutine ended with
	panics any
}

type memberState int

const (
	watched memberState = iota
	leaving             // no longer wanted, and its goroutine has not ended yet
	parked              // no longer watched
	ended               // as the options say
)

// turn is a member's, from when it is accepted until over is closed.
type turn struct {
	member  *member
	events  chan Event
	results chan error // of each event
	over    chan struct{}
}

// enter parks a member for each namespace of the position that the range goes on from.
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
			enter(o.Namespace).enterObject(o)
		}
	}
	for n := range p.ResourceVersions {
		if n != "" {
			enter(n)
		}
	}
	p.Objects = nil
	if f.publish(); f.namespaces != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.rest = *p
	}
}

// loop runs all lanes until all have ended, or one with an error, and returns
// that. What a lane panics with (a Select does) it panics with.
func (f *fanIn) loop(ctx context.Context, namespaces []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		cancel(errLeft) // if not the caller's ctx, it is the loop that ends them
		f.running.Wait()
		for _, m := range f.members { // also of those that nobody listened to any more
			if m.panics != nil {
				panic(m.panics)
			}
		}
	}()
	for _, n := range namespaces {
		f.start(ctx, n)
	}
	if f.from.kind != startFrom {
		f.from = Snapshot() // for namespaces that come later
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
		case <-f.namespaces.Changed():
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

// isOver says whether nothing more is to come: every member has ended, or with
// AtFirstClose one has, and the snapshots of the others have been delivered.
func (f *fanIn) isOver() bool {
	if f.over && f.isSynced() {
		return true
	}
	for _, m := range f.members {
		if m.state == watched || m.state == leaving {
			return false
		}
	}
	return f.namespaces == nil || (f.options.UntilSynced || f.options.UntilClosed)
}

// isSynced says whether something is watched, or has ended as the options say, and all
// that is watched is SYNCED.
func (f *fanIn) isSynced() (synced bool) {
	for _, m := range f.members {
		if m.state == watched && !m.synced {
			return false
		}
		synced = synced || m.synced && (m.state == watched || m.state == ended)
	}
	return synced
}

// start watches a namespace, from where it was when it was watched last.
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
	first := w.begin(f.startOf(w, m.worker)) // before a Position can be asked for
	runCtx := ctx
	ctx, m.cancel = context.WithCancelCause(ctx)
	m.worker, m.state, m.synced, m.err = w, watched, false, nil
	f.publish()
	f.running.Go(func() {
		m.panics = "the goroutine of a lane was ended"
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

// startOf is where a lane begins: where the last one of its namespace was, or if
// there was none where the range does.
func (f *fanIn) startOf(w, last *worker) Start {
	if last == nil {
		return f.from
	}
	p := last.report.position()
	if w.index != nil {
		w.index, w.infers, w.report.index = last.index, last.infers, last.index
	}
	if rv, ok := f.from.position.ResourceVersions[""]; ok {
		p.ResourceVersions[""] = rv
	}
	from := From(p)
	from.snapshot = f.from.snapshot
	return from
}

// serve emits what a lane delivers in its turn.
func (f *fanIn) serve(t turn) (err error) {
	for {
		select {
		case ev := <-t.events:
			if f.admit(t.member, &ev) {
				err = f.handle(ev, t)
			} else {
				ev.Ack() // nobody will see it
				t.results <- nil
			}
		case <-t.over:
			return err
		}
	}
}

// handle emits ev and lets its lane know, also if the loop body panics: the lane must
// not wait for ever.
func (f *fanIn) handle(ev Event, t turn) (err error) {
	err = errLeft
	defer func() { t.results <- err }()
	err = f.emit(ev)
	return err
}

// passes says whether ev is delivered. The SYNCED of all is one.
func (f *fanIn) admit(m *member, ev *Event) bool {
	m.synced = ev.Type == Synced || m.synced && ev.Type != Gap
	if ev.Type != Synced {
		f.pendingSynced = f.pendingSynced || !m.synced
		return true
	}
	if f.started > 1 {
		ev.Namespace, ev.ResourceVersion = "", "" // their snapshots have versions of their own
	}
	f.pendingSynced = !f.isSynced()
	return !f.pendingSynced
}

// sync delivers the SYNCED that was held back for namespaces that are no longer
// watched.
func (f *fanIn) sync() error {
	if !f.pendingSynced || !f.isSynced() {
		return nil
	}
	f.pendingSynced = false
	return f.emit(Event{Type: Synced, Resource: f.resource})
}

// end notes that the goroutine of a member has ended. An error ends the range.
func (f *fanIn) end(ctx context.Context, m *member) error {
	before := m.state
	m.state = parked
	namespace := m.worker.namespace
	var refused *RequestError
	switch {
	case m.panics != nil:
		return errLeft // loop panics
	case before == leaving:
		if slices.Contains(f.namespaces.Get(), namespace) {
			f.start(ctx, namespace)
		}
	case f.namespaces.HandlesRefusal() && errors.As(m.err, &refused) && apierrors.IsForbidden(m.err):
		f.publish()
		f.namespaces.Refuse(namespace, m.err)
	case m.err != nil:
		return m.err
	default:
		m.state = ended
		f.over = f.over || f.options.UntilClosed
	}
	f.publish()
	return f.sync()
}

// change watches what is to be watched now.
func (f *fanIn) change(ctx context.Context) {
	wanted := f.namespaces.Get()
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

// publish lets Status and Position see the lanes.
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
