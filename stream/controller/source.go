package controller

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Source adds requests to the queue of a controller. It has the methods of controller-runtime's source.TypedSource and
// source.TypedSyncingSource, so that Controller.Watch, or WatchesRawSource of a builder, accepts it. It keeps no
// objects. It is started once, and its methods may be called from any goroutine.
type Source[request comparable] struct {
	events   sequence
	requests func(stream.Event) []request
	options  SourceOptions
	ready    chan struct{} // closed by setReady
	ended    chan struct{} // closed when the run has ended
	err      error         // of the run, once ended is closed

	mu        sync.Mutex
	started   bool
	readyOnce sync.Once
	synced    atomic.Bool // the run has received a SYNCED
}

// SourceOptions configure a [Source]. The zero value is the default.
type SourceOptions struct {
	// MaxQueued bounds the queue: while so many requests are ready in it, the Source takes no event, and so the server
	// waits. (One event may lead to more.) Controllers start their workers when all sources are synced, so
	// [Source.WaitForSync] then returns when the queue is full for the first time, even before SYNCED. Use it if no
	// reconcile needs to know that everything has been added. Zero means no bound: each object that exists may have a
	// request in the queue, a few hundred bytes each.
	MaxQueued int
	// Logger receives GAPs with HistoryLost (Warn): deletions may be missing after one. Nil disables logging.
	Logger *slog.Logger
}

const (
	pollQueue  = 5 * time.Millisecond   // the interval in which a Source looks for room in the queue
	pollSynced = 100 * time.Millisecond // how often WaitForSync looks, as client-go's WaitForCacheSync
)

// sequence is a *stream.Stream, a *stream.Sequence, a *mux.Mux or a *follow.Mux.
type sequence interface {
	Events(ctx context.Context) iter.Seq2[stream.Event, error]
	Synced(friend.Access) (all, whole bool)
}

var errSourceGoexit = errors.New("controller: the sequence or the function of a Source called runtime.Goexit")

// errCheckpoint: a request in the queue is lost when the process ends, and so would be the event if it was acked.
var errCheckpoint = invalid.New("Checkpoint", "",
	"must not be combined with a Source, which does not learn whether requests succeed")

// NewSource returns a Source of s, which is a *stream.Stream, a *stream.Sequence, a *mux.Mux or a *follow.Mux. requests
// returns the requests that an event of an object leads to, and runs in the loop over the events. If it panics, the run
// of the Source ends with a [*stream.PanicError]. The strings of the event's object are parts of longer ones, up to 4
// KiB for each object, which a request with one of them retains: use the strings of [KeyOf], or strings.Clone. opts is
// copied and may be nil.
//
// NewSource returns an [*stream.OptionsError] if s or requests is nil, if an option is invalid, or if s has a
// Checkpoint: a request in the queue is not handled yet. If a source of a Mux has one, the run ends with that error.
func NewSource[request comparable](
	s sequence, requests func(stream.Event) []request, opts *SourceOptions,
) (*Source[request], error) {
	o := *cmp.Or(opts, &SourceOptions{})
	switch {
	case s == nil:
		return nil, invalid.New("s", "", "must not be nil")
	case requests == nil:
		return nil, invalid.New("requests", "", "must not be nil")
	}
	if err := invalid.Negative("MaxQueued", o.MaxQueued); err != nil {
		return nil, err
	}
	if w, ok := s.(interface {
		Watched(friend.Access) (stream.Options, stream.Run, error)
	}); ok {
		if _, run, _ := w.Watched(friend.Access{}); run.Checkpoint != nil {
			return nil, errCheckpoint
		}
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Source[request]{
		events: s, requests: requests, options: o, ready: make(chan struct{}), ended: make(chan struct{}),
	}, nil
}

// check returns an error if the Source was not made with NewSource, or ctx is nil.
func (s *Source[request]) check(ctx context.Context) error {
	switch {
	case s == nil || s.events == nil:
		return invalid.New("Source", "", "must be made with NewSource")
	case ctx == nil:
		return invalid.New("ctx", "", "must not be nil")
	}
	return nil
}

// String returns the name that controller-runtime logs.
func (s *Source[request]) String() string { return "gvrwatch" }

// Start starts the run, in a goroutine that ends when ctx does, and returns at once. It does not report how the run
// ends: [Source.Wait] does. It returns an [*stream.OptionsError] if queue is nil, and [stream.ErrBusy] if it was called
// before: each controller needs a Source of its own.
func (s *Source[request]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	if queue == nil {
		return invalid.New("queue", "", "must not be nil")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return stream.ErrBusy
	}
	s.started = true
	go func() {
		defer close(s.ended)
		s.err = errSourceGoexit // unless run returns
		s.err = s.run(ctx, queue)
	}()
	return nil
}

// run adds requests until the sequence ends.
func (s *Source[request]) run(ctx context.Context, queue workqueue.TypedRateLimitingInterface[request]) error {
	for ev, err := range s.events.Events(ctx) {
		switch {
		case err != nil:
			return err
		case ev.Envelope(friend.Access{}).Mark != nil:
			return errCheckpoint
		case ev.Type == stream.Synced:
			s.synced.Store(true)
			if all, _ := s.events.Synced(friend.Access{}); all {
				s.setReady()
			}
		case ev.Gap != nil && ev.Gap.HistoryLost:
			s.options.Logger.Warn("history lost: deletions may be missing", "event", ev.String())
		}
		if !ev.HasObject() {
			continue
		}
		requests, err := mapped(s.requests, ev)
		if err != nil {
			return err
		}
		for _, r := range requests {
			queue.Add(r)
		}
		for s.options.MaxQueued > 0 && queue.Len() >= s.options.MaxQueued {
			s.setReady()
			select {
			case <-time.After(pollQueue):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// setReady ends the calls of WaitForSync: all is synced, or the queue is full.
func (s *Source[request]) setReady() { s.readyOnce.Do(func() { close(s.ready) }) }

// WaitForSync waits until everything that existed has been added: until the first SYNCED, in a Mux until AllSynced,
// also because a source was removed. It returns nil, also if the run has ended since. It returns the error with which
// the run ended before, or [stream.ErrUnmet] if it ended without one, or the cause of ctx. Before [Source.Start] it
// waits. A controller of controller-runtime ends it, and then itself, after CacheSyncTimeout: 2 minutes by default.
//
// A Mux that has nothing to watch emits no SYNCED, so WaitForSync waits until it has.
func (s *Source[request]) WaitForSync(ctx context.Context) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	ticker := time.NewTicker(pollSynced)
	defer ticker.Stop()
	for waiting := true; waiting; {
		select {
		case <-ticker.C: // a Mux emits nothing when the last source without a SYNCED is removed
			if all, _ := s.events.Synced(friend.Access{}); all && s.synced.Load() {
				s.setReady()
			}
			continue
		case <-s.ready:
		case <-s.ended:
		case <-ctx.Done():
		}
		waiting = false
	}
	select {
	case <-s.ready: // more than one had happened
		return nil
	default:
	}
	select {
	case <-s.ended:
		return cmp.Or(s.err, stream.ErrUnmet)
	default:
		return context.Cause(ctx)
	}
}

// Wait waits until the run has ended and returns its error: nil if the sequence ended without one, the cause of Start's
// context if that ended. It returns the cause of ctx if ctx ends first. Add it to the manager, which then ends with the
// error instead of going on without events:
//
//	err = mgr.Add(manager.RunnableFunc(source.Wait))
func (s *Source[request]) Wait(ctx context.Context) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	select {
	case <-s.ended:
		return s.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
