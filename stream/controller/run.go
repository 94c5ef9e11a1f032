package controller

import (
	"context"
	"errors"
	"iter"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Result is what a successful reconcile returns.
type Result struct {
	// RequeueAfter asks for another reconcile of the key after this time, with the newest event then known. An event of
	// the key, or an earlier RequeueAfter, may cause it earlier; the Result of that reconcile then replaces this one.
	// Zero means none. Until then Run retains the event, without a bound on the number of keys;
	// with Options.KeysOnly it retains the key alone. It is lost when the run ends: with a checkpoint, the next run
	// does not deliver the event again, because it was acked.
	RequeueAfter time.Duration
}

// Run reconciles the keys of the events of seq, which is the sequence of a Stream, a Mux or a follow.Mux. A key is
// reconciled by one worker at a time. Run acks events as their reconciles succeed. opts is copied and may be nil.
//
// reconcile gets a key and the newest event that led to it: ADDED, MODIFIED or DELETED, of whichever object KeyFunc
// maps to the key. The event is zero with [Options.KeysOnly]. reconcile must not change the object: a retry or another
// key may get the same one. Run acks the event; ev.Ack has no effect. After an error or a panic Run retries, with the
// newest event then known. The ctx of reconcile ends when the run does.
//
// Run returns when seq yields an error, which it returns, or when ctx ends, with its cause. Then it cancels the
// reconciles that are running and waits for them; it waits for ever for one that does not heed its context. If seq ends
// without an error, Run first reconciles all that is pending, with retries but without waiting for RequeueAfter, and
// returns nil.
//
// seq should be made with ctx: Run notices the end of ctx at the next event, or while it waits for room. Before it
// takes an event, Run returns an [*stream.OptionsError] if an argument or an option is invalid. A panic of
// Options.KeyFunc ends the run with a [*stream.PanicError].
func Run(
	ctx context.Context, seq iter.Seq2[stream.Event, error],
	reconcile func(context.Context, Key, stream.Event) (Result, error), opts *Options,
) error {
	o, err := opts.check()
	switch {
	case ctx == nil:
		return invalid.New("ctx", "", "must not be nil")
	case seq == nil:
		return invalid.New("seq", "", "must not be nil")
	case reconcile == nil:
		return invalid.New("reconcile", "", "must not be nil")
	case err != nil:
		return err
	}
	l := &loop{
		opts: o, pending: newPending(o.KeysOnly), reconcile: reconcile,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(o.RateLimiter,
			workqueue.TypedRateLimitingQueueConfig[Key]{Name: o.Name}),
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer l.workers.Wait() // also if seq panics
	defer l.queue.ShutDown()
	defer func() { cancel(err) }()
	for range o.Workers {
		l.workers.Go(func() { l.work(inner) })
	}
	if err = l.take(ctx, seq); err == nil {
		err = l.await(ctx, l.pending.isDone)
	}
	return err
}

// loop is one run.
type loop struct {
	opts      Options
	pending   *pending
	reconcile func(context.Context, Key, stream.Event) (Result, error)
	queue     workqueue.TypedRateLimitingInterface[Key]
	workers   sync.WaitGroup
}

// take adds the events of seq until it ends.
func (l *loop) take(ctx context.Context, seq iter.Seq2[stream.Event, error]) error {
	for ev, err := range seq {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case ev.Gap != nil && ev.Gap.HistoryLost:
			l.opts.Logger.Warn("history lost: deletions may be missing", "event", ev.String())
		}
		var keys []Key
		if ev.HasObject() {
			if keys, err = mapped(l.opts.KeyFunc, ev); err != nil {
				return err
			}
		}
		if len(keys) == 0 {
			ev.Ack()
			continue
		}
		if err := l.await(ctx, func() bool { return l.pending.hasRoom(keys, l.opts.MaxPending) }); err != nil {
			return err
		}
		l.pending.add(ev, keys)
		for _, k := range keys {
			l.queue.Add(k)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// mapped calls a function of the caller. A panic of it is a *stream.PanicError.
func mapped[T any](f func(stream.Event) []T, ev stream.Event) (to []T, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &stream.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f(ev), nil
}

// await waits until done returns true.
func (l *loop) await(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case <-l.pending.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// work is one worker. It ends when ctx has ended and the queue is shut down.
func (l *loop) work(ctx context.Context) {
	returned := false
	defer func() {
		if !returned { // a reconcile called runtime.Goexit: another worker takes the place of this one
			l.workers.Go(func() { l.work(ctx) })
		}
	}()
	for {
		k, shutdown := l.queue.Get()
		if shutdown {
			break
		}
		l.handle(ctx, k)
	}
	returned = true
}

var errGoexit = errors.New("controller: the reconcile called runtime.Goexit")

// handle reconciles a key once.
func (l *loop) handle(ctx context.Context, k Key) {
	defer l.queue.Done(k)
	if ctx.Err() != nil {
		return
	}
	ev, acks, ok := l.pending.begin(k)
	if !ok {
		return
	}
	result, err := Result{}, errGoexit
	defer func() {
		if err != nil {
			l.pending.failed(k, acks)
			if ctx.Err() == nil {
				l.log(k, err)
			}
			l.queue.AddRateLimited(k)
			return
		}
		l.queue.Forget(k)
		for _, mark := range l.pending.succeeded(k, acks, result.RequeueAfter > 0) {
			mark.Ack()
		}
		if result.RequeueAfter > 0 {
			l.queue.AddAfter(k, result.RequeueAfter)
		}
	}()
	result, err = l.call(ctx, k, ev)
}

func (l *loop) log(k Key, err error) {
	attributes := []any{"key", k.String(), "error", err}
	if panicked := (*stream.PanicError)(nil); errors.As(err, &panicked) {
		attributes = append(attributes, "stack", string(panicked.Stack))
	}
	l.opts.Logger.Warn("reconcile failed", attributes...)
}

// call calls reconcile. A panic of it is a *stream.PanicError.
func (l *loop) call(ctx context.Context, k Key, ev stream.Event) (result Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &stream.PanicError{Where: k.String(), Value: v, Stack: debug.Stack()}
		}
	}()
	return l.reconcile(ctx, k, ev)
}
