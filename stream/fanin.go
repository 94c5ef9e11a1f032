package stream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
)

// fanIn merges the workers of several namespaces into the loop's goroutine. Each worker has a goroutine, and changes
// its index and delivers events only in its turn. The loop's goroutine grants one turn at a time and waits for its end,
// so all fields belong to the loop's goroutine.
type fanIn struct {
	run           *activeRun
	from          sequence.Origin
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
	worker  *sequence.Worker
	events  chan Event
	results chan error              // one for each event
	cancel  context.CancelCauseFunc // nil if it has never been watched
	state   memberState
	synced  bool
	blocked bool  // SYNCED has waited for a list that was due, once since the last SYNCED
	err     error // the result of its goroutine
	panics  any   // the value that its goroutine panicked with
}

// memberState is what fanIn does about a namespace. It is another enumeration than State because a member whose run has
// ended may be watched again.
type memberState int

const (
	watched memberState = iota
	leaving             // no longer wanted; its goroutine has not ended yet
	parked              // no longer watched
	ended               // its goroutine has ended, because of UntilSynced or UntilClosed
)

// turn is the turn of a member. It lasts from its receipt by loop until over is closed.
type turn struct {
	member *member
	over   chan struct{}
}

// newFanIn returns a fanIn with a parked member for each namespace of the position that the run resumes from.
func newFanIn(r *activeRun, from sequence.Origin) *fanIn {
	f := &fanIn{run: r, from: from, members: map[string]*member{}, turns: make(chan turn), ends: make(chan *member)}
	p := from.Position
	if p == nil {
		p = &checkpoint.Position{}
	}
	enter := func(namespace string) *sequence.Worker {
		if f.members[namespace] == nil {
			f.member(namespace).state = parked
			f.members[namespace].worker.Stand(p)
		}
		return f.members[namespace].worker
	}
	for _, o := range p.Objects {
		if o.Namespace != "" {
			enter(o.Namespace).Enter(o)
		}
	}
	for n := range p.ResourceVersions {
		if n != "" {
			enter(n)
		}
	}
	p.Objects = nil
	var rest checkpoint.Position
	if r.hosted.Namespaces != nil {
		rest = *p
	}
	r.stream.begun(nil, rest, r.shared.Session)
	f.publish()
	return f
}

// member returns the member of a namespace.
func (f *fanIn) member(namespace string) *member {
	m := f.members[namespace]
	if m != nil {
		return m
	}
	m = &member{events: make(chan Event), results: make(chan error)}
	m.worker = sequence.New(f.run.stream.target, f.run.shared, namespace, sequence.Door{
		Emit: func(s *sequence.Event) error {
			m.events <- f.run.event(s) // serve listens until the turn is over
			return <-m.results
		},
		Turn: func(ctx context.Context, deliver func() error) error {
			t := turn{member: m, over: make(chan struct{})}
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
		},
	})
	f.members[namespace] = m
	return m
}

// loop runs all workers until all have ended, or one with an error, and returns that error. If a worker panics, in
// Select for example, so does loop.
func (f *fanIn) loop(ctx context.Context, namespaces []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer func() {
		cancel(sequence.ErrLeft) // no effect if the caller's ctx has ended
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
	if f.from.Position == nil {
		f.from = sequence.Origin{} // for namespaces added later
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
		case <-f.run.hosted.Namespaces.Changed():
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
	return f.run.hosted.Namespaces == nil // else more may come
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

// start watches a namespace: from where it was left or, if it was not known, from where the run began.
func (f *fanIn) start(ctx context.Context, namespace string) {
	_, known := f.members[namespace]
	m := f.member(namespace)
	if m.cancel == nil {
		f.started++
	}
	if known { // before publish, which lets Position see the worker
		m.worker.Continue(f.from)
	} else {
		m.worker.Begin(f.from)
	}
	runCtx := ctx
	ctx, m.cancel = context.WithCancelCause(ctx)
	m.state, m.synced, m.err = watched, false, nil
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
		m.err = m.worker.Run(ctx)
		m.panics = nil
	})
}

// serve emits the events of a worker's turn.
func (f *fanIn) serve(t turn) (err error) {
	for {
		select {
		case ev := <-t.member.events:
			if f.admit(t.member, &ev) {
				err = f.handle(ev, t)
			} else {
				ev.Ack() // it is not delivered
				t.member.results <- nil
			}
		case <-t.over:
			return err
		}
	}
}

// handle emits ev and sends the result to the worker, even if the loop body panics: the worker must not wait for ever.
func (f *fanIn) handle(ev Event, t turn) (err error) {
	err = sequence.ErrLeft
	defer func() { t.member.results <- err }()
	err = f.run.emit(&ev)
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
	f.block()
	if f.pendingSynced = !f.isSynced(); !f.pendingSynced {
		f.unblock()
	}
	return !f.pendingSynced
}

// block makes SYNCED wait for members whose GAP is still to come: a list is due, because their events are doubted. Each
// is waited for once, or those that are doubted again and again would never let SYNCED pass.
func (f *fanIn) block() {
	for _, m := range f.members {
		if m.state == watched && m.synced && !m.blocked && !m.worker.Status().Synced {
			m.synced, m.blocked = false, true
		}
	}
}

// unblock is called when SYNCED is emitted.
func (f *fanIn) unblock() {
	for _, m := range f.members {
		m.blocked = false
	}
}

// sync emits a pending SYNCED if the namespaces that it waited for are no longer watched.
func (f *fanIn) sync() error {
	if !f.pendingSynced || !f.isSynced() {
		return nil
	}
	f.pendingSynced = false
	f.unblock()
	return f.run.emit(&Event{Type: Synced, Resource: f.run.stream.resource})
}

// end handles the end of a member's goroutine. An error ends the run.
func (f *fanIn) end(ctx context.Context, m *member) error {
	before := m.state
	m.state = parked
	namespace := m.worker.Namespace()
	var refused *RequestError
	switch {
	case m.panics != nil:
		return sequence.ErrLeft // loop panics
	case before == leaving:
		if slices.Contains(f.run.hosted.Namespaces.Get(), namespace) {
			f.start(ctx, namespace)
		}
	case f.run.hosted.Namespaces.HandlesRefusal() && errors.As(m.err, &refused) && apierrors.IsForbidden(m.err):
		f.publish()
		f.run.hosted.Namespaces.Refuse(namespace, m.err)
	case m.err != nil:
		return m.err
	default:
		m.state = ended
		f.over = f.over || f.run.run.Until == UntilClosed
	}
	f.publish()
	return f.sync()
}

// change starts and stops members after the namespaces have changed.
func (f *fanIn) change(ctx context.Context) {
	wanted := f.run.hosted.Namespaces.Get()
	for n, m := range f.members {
		if m.state == watched && !slices.Contains(wanted, n) {
			m.state = leaving
			m.cancel(sequence.ErrLeft)
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
	var active, idle []*sequence.Worker
	for _, n := range slices.Sorted(maps.Keys(f.members)) {
		m := f.members[n]
		if m.state == parked {
			idle = append(idle, m.worker)
		} else {
			active = append(active, m.worker)
		}
	}
	f.run.stream.publish(active, idle)
}
