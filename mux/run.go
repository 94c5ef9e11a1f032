package mux

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// activeRun is one run over Events: its loop, and the workers and the functions of groups that run beside it.
type activeRun struct {
	options Options
	lists   *host.Lists
	sources *sourceSet
	cancel  context.CancelCauseFunc
	workers sync.WaitGroup // and the functions

	// sourceSet.mu guards the following.
	start      func(*source, time.Duration) // starts a source after a delay; nil once the run ends
	startGroup func(*group)                 // must not be called once start is nil
	running    int                          // workers
	ending     ending
	err        error // of a group
}

// ending says how a run ends.
type ending int

const (
	notEnding ending = iota
	draining
	stopping
)

var errStopped, errLeft, errOver = errors.New("stopped"), errors.New("the loop was left"), errors.New("the run is over")

// begin starts what runs beside the loop, until ctx ends. Its caller holds sourceSet.mu.
func (r *activeRun) begin(ctx context.Context) {
	r.start, r.startGroup = r.starter(ctx), func(g *group) { r.launch(ctx, g) }
	r.sources.reset()
	for _, s := range r.sources.byKey {
		r.start(s, 0)
	}
	for _, g := range r.sources.groups {
		r.startGroup(g)
	}
}

// starter returns the function that starts the worker of a source. Its caller holds sourceSet.mu. The workers end when
// ctx does.
func (r *activeRun) starter(ctx context.Context) func(*source, time.Duration) {
	return func(s *source, delay time.Duration) {
		ctx, stop := context.WithCancelCause(ctx)
		done, predecessor := make(chan struct{}), r.sources.leaving[s.key]
		s.worker = lastWorker{
			state: stream.Listing, running: true, stop: stop, done: done, number: s.worker.number + 1,
		}
		if delay > 0 {
			s.worker.state, s.failure.nextTry = stream.Backoff, time.Now().Add(delay)
		}
		r.running++
		w := worker{source: s.from, key: s.key, lists: r.lists, holder: &r.sources.holder, door: &port{r, s}}
		r.workers.Go(func() {
			defer close(done)
			defer stop(nil)
			if predecessor != nil {
				<-predecessor // it has the same key, and is ending
			}
			w.work(ctx, delay)
		})
	}
}

// loop delivers what waits until the run is over. It returns the error to yield.
func (r *activeRun) loop(ctx context.Context, yield func(stream.Event, error) bool) error {
	var it item
	for {
		s, err := r.next(ctx, &it)
		switch {
		case err == errOver:
			return nil
		case err != nil:
			return err
		case s == nil:
			select {
			case <-r.sources.backlog.wake:
			case <-ctx.Done():
			}
		case it.end:
			if err := r.handleFailure(s, it.err); err != nil {
				return err
			}
		case !r.deliver(s, it.event, yield):
			return nil
		}
	}
}

// next takes what the loop handles next: an event, or the failure of a source. It returns no source if the loop has to
// wait, and an error if the run ends: errOver if it ends without one.
func (r *activeRun) next(ctx context.Context, it *item) (*source, error) {
	r.sources.mu.Lock()
	defer r.sources.mu.Unlock()
	*it = item{}
	switch {
	case r.ending == stopping:
		return nil, errOver
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case r.err != nil && r.ending == notEnding:
		return nil, r.err
	}
	for {
		switch s := r.sources.backlog.take(it); {
		case s == nil && r.isOver():
			return nil, errOver
		case s == nil, r.record(s, it):
			return s, nil
		}
	}
}

// record records an item that was taken. It reports whether the loop has to handle it.
func (r *activeRun) record(s *source, it *item) bool {
	switch {
	case it.end && it.run != s.worker.number:
		return false // it ended in an earlier run of the Mux
	case it.end:
		r.sources.end(s, it.err)
		return it.err != nil && r.ending == notEnding
	case it.event.Type == stream.Synced:
		r.sources.reach(s, &it.event)
	case it.event.Type == stream.Gap:
		r.sources.lose(s)
	}
	return true
}

// isOver reports whether nothing more can come. Nothing is queued.
func (r *activeRun) isOver() bool {
	if r.ending == draining {
		return r.running == 0
	}
	return len(r.sources.groups) == 0 && r.sources.allEnded()
}

// deliver yields an event. If the loop body panics, the event counts as discarded.
func (r *activeRun) deliver(s *source, ev stream.Event, yield func(stream.Event, error) bool) bool {
	returned := false
	defer func() {
		if !returned {
			r.sources.mu.Lock()
			defer r.sources.mu.Unlock()
			s.discarded = true
		}
	}()
	more := yield(ev, nil)
	returned = true
	return more
}

// end makes the loop end, unless it is ending in this way or a harder one already. Its caller holds sourceSet.mu.
func (r *activeRun) end(how ending) {
	if r.ending >= how {
		return
	}
	r.ending, r.start = how, nil
	if how == draining {
		for _, s := range r.sources.byKey {
			r.sources.backlog.admit(s, true)
		}
	}
	r.cancel(errStopped)
	r.sources.backlog.notify()
}

// wait ends what runs beside the loop, and waits until it has ended.
func (r *activeRun) wait() {
	r.sources.mu.Lock()
	r.start = nil
	r.sources.mu.Unlock()
	r.cancel(errLeft)
	r.workers.Wait()
}

// handleFailure does what OnError decides about a source that has failed. It returns the error that ends the run.
func (r *activeRun) handleFailure(s *source, err error) error {
	if !r.matters(s) {
		return nil
	}
	log := r.options.Logger.With("source", s.key, "error", err)
	switch decision, panicked := r.options.decide(s.key, err); {
	case panicked != nil:
		log.Error("source failed, and Options.OnError panicked, ending the run", "panic", panicked)
		return &SourceError{s.key, fmt.Errorf("%w, and Options.OnError: %w", err, panicked)}
	case decision == Drop:
		log.Warn("source failed, dropping it")
		r.sources.mu.Lock()
		defer r.sources.mu.Unlock()
		if !s.removed {
			r.sources.detach(s)
		}
	case decision == Retry:
		if delay, ok := r.retry(s); ok {
			log.Warn("source failed, retrying", "after", delay)
		}
	case r.matters(s):
		log.Error("source failed, ending the run")
		return &SourceError{s.key, err}
	}
	return nil
}

// matters reports whether the failure of a source still matters: the source has not been removed, and the run is not
// ending.
func (r *activeRun) matters(s *source) bool {
	r.sources.mu.Lock()
	defer r.sources.mu.Unlock()
	return !s.removed && r.ending == notEnding
}

// decide calls OnError. A panic of OnError is a *stream.PanicError.
func (o *Options) decide(key string, err error) (d Decision, panicked error) {
	defer func() {
		if p := recover(); p != nil {
			panicked = &stream.PanicError{Where: key, Value: p, Stack: debug.Stack()}
		}
	}()
	return o.OnError(key, err), nil
}

const firstDelay, maxDelay = time.Second, 30 * time.Second

// healthy is how long a source has to run for its failures to be forgotten.
const healthy = time.Minute

// retry starts a source again, unless it has been removed or the run is ending.
func (r *activeRun) retry(s *source) (delay time.Duration, ok bool) {
	r.sources.mu.Lock()
	defer r.sources.mu.Unlock()
	if s.removed || r.start == nil {
		return 0, false
	}
	if s.worker.ended.Sub(s.worker.began) >= healthy { // the loop may receive the end much later
		s.failure.inARow = 0
	}
	s.failure.inARow++
	s.buffer.restart()
	delay = wait.Between(0, wait.Doubled(s.failure.inARow, firstDelay, maxDelay))
	r.start(s, delay)
	return delay, true
}
