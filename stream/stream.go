package stream

import (
	"context"
	"errors"
	"iter"
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/watchlist"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Stream watches one resource, across the cluster or in one namespace. Its
// methods may be called from any goroutine.
type Stream struct {
	client   dynamic.ResourceInterface
	resource gvr.Resource
	options  Options
	fake     bool // the client is client-go's dynamic fake

	mu     sync.Mutex
	cancel context.CancelCauseFunc // of the range that is running, else nil
}

var errStopped = errors.New("stopped")

// New returns a Stream of r, as package discovery returns it (r.Verbs must hold
// list and watch). It asks the server nothing. It returns one of
// *NotWatchableError, *NotNamespacedError, *NamespaceError and *SelectorError
// if r can't be watched like that. opts may be nil, and is copied.
//
// Make c from a rest.Config without a Timeout: it would end every watch. The
// Stream goes on, at the cost of a request each time; but a Timeout under two
// seconds looks like a server in trouble, and brings waits and GAPs.
func New(c dynamic.Interface, r gvr.Resource, opts *Options) (*Stream, error) {
	o, err := opts.check(r)
	if err != nil {
		return nil, err
	}
	s := &Stream{resource: r, options: o, fake: watchlist.DoesClientNotSupportWatchListSemantics(c)}
	if o.Namespace == "" {
		s.client = c.Resource(r.GroupVersionResource)
	} else {
		s.client = c.Resource(r.GroupVersionResource).Namespace(o.Namespace)
	}
	return s, nil
}

// Resource returns what the Stream watches.
func (s *Stream) Resource() gvr.Resource { return s.resource }

// Events returns the sequence. Ranging over it does all the work, in the
// ranging goroutine: while the loop body runs, nothing is read, and the server
// waits. Leaving the loop, by break, return or panic, ends the watch and waits
// for its goroutine. It may be ranged over again, from the beginning, but only
// once at a time (ErrBusy).
//
// A yielded error is the last thing yielded, and final: the cause of ctx when
// ctx has ended, or a *RequestError when before the first SYNCED the server
// refused the list or the watch (400, 401, 403, 404, 405, 422) or answered with
// a list that can't be used (no resourceVersion, objects without names).
// Everything else is tried again, after waits of at most 30 s, or as the server
// asks, up to an hour. (client-go itself waits as a Retry-After header asks, up
// to ten times; after some minutes of that it is asked anew.) Stop ends the
// sequence without an error.
func (s *Stream) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := s.run(ctx, yield); err != nil {
			yield(Event{}, err)
		}
	}
}

// run is one range. It returns what is to be yielded as its last.
func (s *Stream) run(ctx context.Context, yield func(Event, error) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !s.begin(cancel) {
		return ErrBusy
	}
	defer s.end()
	r := run{Stream: s, index: newIndex(), yield: yield}
	err := r.loop(ctx)
	if r.left || errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// Stop ends the range over Events that is running, if there is one, at once:
// the loop ends as soon as its body returns. It does not wait for that, so the
// body may call it. Before a range has begun there is nothing to stop: where one
// goroutine starts a range and another must be sure to end it, end its ctx.
func (s *Stream) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel(errStopped)
	}
}

func (s *Stream) begin(cancel context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return false
	}
	s.cancel = cancel
	return true
}

func (s *Stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = nil
}
