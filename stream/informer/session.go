package informer

import (
	"context"
	"errors"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// sessionBuffer is how many events of a run wait for a reflector. It saves changes of goroutines.
const sessionBuffer = 100

// session is a run of a Stream for a List and the Watch that continues it, or for a Watch.
type session struct {
	watcher    *Watcher
	resource   gvr.Resource
	namespaces int
	states     *states // of an informer, else nil
	marker     bool    // mark the end of the initial events
	list       *list   // what to collect until SYNCED; nil for a Watch
	caughtUp   bool    // SYNCED has come, and no GAP since; or the run began at a version
	ready      chan struct{}
	err        error // why it ended before it was ready; valid once ready is closed

	// They let a session end with the context of a List or Watch, too. ListerWatcher.mu guards them.
	bind    func(context.Context) // to another context than before
	stopped func() bool           // reports whether the session ends
}

// begin starts the run. It is ready when the first event has arrived, or with a list SYNCED.
func (s *session) begin(ctx context.Context, seq func(context.Context) iter.Seq2[stream.Event, error]) {
	s.watcher, ctx = newWatcher(context.WithoutCancel(ctx), sessionBuffer)
	s.ready = make(chan struct{})
	unbind := func() bool { return true }
	s.bind = func(other context.Context) {
		unbind()
		release := context.AfterFunc(other, s.watcher.cancel)
		unbind = release
		context.AfterFunc(ctx, func() { release() })
		s.stopped = func() bool { return ctx.Err() != nil || other.Err() != nil }
	}
	go s.watcher.run(ctx, func() error { return s.read(ctx, seq(ctx)) })
}

// read handles the events of the run. An error from before the session is ready is for the caller of List or Watch, a
// later one for the receiver of the events.
func (s *session) read(ctx context.Context, seq iter.Seq2[stream.Event, error]) error {
	isReady := false
	s.err = errors.New("informer: the run ended before SYNCED")
	defer func() {
		if !isReady {
			close(s.ready)
		}
	}()
	for ev, err := range seq {
		if err == nil && !isReady && (s.list == nil || ev.Type == stream.Synced) {
			if s.list != nil {
				err = s.list.complete(ev.ResourceVersion)
			}
			if err == nil {
				isReady, s.err = true, nil
				close(s.ready)
			}
		}
		if err == nil {
			err = s.handle(ctx, ev, isReady)
		}
		switch {
		case err != nil && !isReady:
			s.err = requestError(err)
			return nil
		case err != nil && !s.resumable():
			// The receiver must not continue at the version of the last event.
			return &stream.GapError{Reason: stream.GapRestarted, Err: err}
		case err != nil:
			return err
		}
	}
	return nil
}

// requestError returns the error of a List or Watch. For a GAP it is Expired, which callers in client-go look for.
func requestError(err error) error {
	if errors.As(err, new(*stream.GapError)) {
		return apierrors.FromObject(statusOf(err))
	}
	return err
}

// resumable reports whether everything up to the version of the last event has been delivered. The versions of initial
// events, and of differences, have no order.
func (s *session) resumable() bool { return s.caughtUp && s.namespaces == 1 }

// handle collects or sends one event.
func (s *session) handle(ctx context.Context, ev stream.Event, isReady bool) error {
	switch {
	case ev.HasObject():
		o, err := decoded(ev)
		if err != nil {
			return err
		}
		if !isReady {
			s.list.collect(ev.Type, o)
			return nil
		}
		if ev.Type == stream.Deleted && s.states != nil {
			s.states.deleting(o, ev.Inferred)
		}
		return s.watcher.send(ctx, watch.EventType(ev.Type), o)
	case ev.Type == stream.Gap:
		s.caughtUp = false
		return lostHistory(ev)
	case ev.Type == stream.Synced:
		return s.synced(ctx, ev.ResourceVersion)
	case s.namespaces == 1 && isReady:
		return s.watcher.send(ctx, watch.Bookmark, bookmark(s.resource, ev.ResourceVersion))
	}
	return nil
}

// await waits until the session is ready. If it returns an error, the session has been stopped.
func (s *session) await(ctx context.Context) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		s.watcher.Stop()
		return context.Cause(ctx)
	}
	if s.err != nil {
		s.watcher.Stop()
	}
	return s.err
}

// synced sends what the List has retained, then a bookmark, if the version says anything to the receiver.
func (s *session) synced(ctx context.Context, rv string) error {
	s.caughtUp = true
	if l := s.list; l != nil && l.retained != nil {
		for _, o := range l.retained {
			if err := s.watcher.send(ctx, watch.Added, o); err != nil {
				return err
			}
		}
		l.retained = nil
	}
	if rv == "" && !s.marker {
		return nil
	}
	b := bookmark(s.resource, rv)
	if s.marker {
		b.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		s.marker = false
	}
	return s.watcher.send(ctx, watch.Bookmark, b)
}
