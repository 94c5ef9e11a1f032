package follow

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// sequence is the sequence of a followed resource, in the goroutine of its source. It consists of runs of several
// Streams, one after the other. A new run begins when the resource is served again or in another version, when its
// watch moves between the cluster and single namespaces, and after a failure. Each run resumes where the one before it
// ended.
type sequence struct {
	followed *followed
	cursor   *cursor
}

// cursor is where the next streamRun begins.
type cursor struct {
	position  *checkpoint.Position // where the last run ended; nil for none
	delivered bool                 // an event, so that a position is worth keeping
	synced    bool                 // SYNCED was delivered, and no GAP since
	failures  int                  // runs that failed in a row
}

// run delivers the events.
func (q *sequence) run(ctx context.Context, yield func(stream.Event, error) bool) {
	s := q.followed
	s.watched.change(func(w *watched) {
		if !w.ended { // else it goes on
			w.stream, w.refused, *q.cursor = nil, map[string]bool{}, cursor{}
		}
	})
	failed := true // also if the Stream panics
	defer s.watched.change(func(w *watched) { w.ended = failed && !s.served.get().unknown })
	for {
		resource, namespaces, err := q.await(ctx)
		if err == nil {
			var ok bool
			if ok, err = q.watch(ctx, resource, namespaces, yield); !ok {
				failed = false
				return
			}
		}
		if ctx.Err() != nil {
			err, failed = context.Cause(ctx), false
		}
		if err != nil {
			yield(stream.Event{}, err)
			return
		}
	}
}

// await waits until there is something to watch.
func (q *sequence) await(ctx context.Context) (gvr.Resource, []string, error) {
	s := q.followed
	for {
		if ctx.Err() != nil {
			return gvr.Resource{}, nil, context.Cause(ctx)
		}
		resource, namespaces, ok := s.wanted()
		if ok {
			return resource, namespaces, nil
		}
		nowhere := s.served.get().now && !s.common.rights.pending(resource.GroupResource())
		if nowhere && s.reported.get().state == Forbidden {
			s.watched.change(func(w *watched) { w.namespaces = nil })
			s.setState(Forbidden, nil)
		}
		s.watched.change(func(w *watched) { w.idle = true })
		select {
		case <-s.changed:
		case <-ctx.Done():
		}
		s.watched.change(func(w *watched) { w.idle = false })
	}
}

// watch is one streamRun. It returns false if the loop was left, and an error that is final.
func (q *sequence) watch(
	ctx context.Context, resource gvr.Resource, namespaces []string, yield func(stream.Event, error) bool,
) (bool, error) {
	sr, err := q.newRun(resource, namespaces)
	if err != nil {
		return true, err
	}
	resumes := q.cursor.resumesIn(namespaces)
	o := host.Run{Start: q.start(), Lists: q.followed.common.lists, Namespaces: sr.namespaces,
		Again: q.cursor.delivered}
	runCtx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	q.followed.watched.change(func(w *watched) { w.active, w.synced = true, false })
	defer q.followed.watched.change(func(w *watched) { w.active, w.synced = false, false })
	running.Go(func() { sr.supervise(runCtx, cancel) })
	defer running.Wait()
	defer cancel(errRunOver)
	for ev, runErr := range sr.sequence.Host(runCtx, o) {
		if runErr != nil && runErr != errRunOver {
			err = runErr
		}
		if runErr != nil {
			break
		}
		q.cursor.delivered = true
		switch ev.Type {
		case stream.Gap:
			q.cursor.synced, resumes = false, false
		case stream.Synced:
			q.cursor.failures, q.cursor.synced = 0, true
			if resumes && slices.Equal(q.followed.watched.get().namespaces, namespaces) {
				resumes = false // the loop has it from the run before
				ev.Ack()
				q.followed.watching(resource)
				continue
			}
		}
		if !sr.deliver(ev, yield) {
			return false, nil
		}
		if ev.Type == stream.Synced {
			q.followed.watching(resource)
			q.followed.common.onSynced()
		}
	}
	if p := q.endPosition(ctx, sr); q.cursor.delivered { // else the next run is the first one
		q.cursor.position = p
	}
	return true, q.handleEnd(ctx, resource, err)
}

// newRun returns the next run, and records what it watches.
func (q *sequence) newRun(r gvr.Resource, namespaces []string) (*streamRun, error) {
	s := q.followed
	o, run, err := s.common.options.source(r)
	if err != nil {
		return nil, err
	}
	sr := &streamRun{
		followed: s, resource: r, clusterWide: len(namespaces) == 0, run: run, states: make(chan stream.Status, 1),
		began: time.Now(),
	}
	sr.namespaces = host.NewNamespaces(namespaces, func(namespace string, err error) {
		s.forbidden(r, namespace, err)
	})
	o.Namespaces = s.common.selection.scope(r)
	if s.common.options.UntilSynced && run.Checkpoint != nil && !q.cursor.synced {
		// SYNCED has to follow the changes since the checkpoint, not precede them.
		sr.run.Until = stream.UntilSynced
	}
	o.Trace = sr.trace(o.Trace)
	sr.stream, err = stream.New(s.common.client, r, &o)
	if err != nil {
		return nil, err
	}
	sr.sequence = sr.stream.With(sr.run)
	sr.setQuiet()
	s.watched.change(func(w *watched) { w.stream, w.namespaces = sr.stream, namespaces })
	return sr, nil
}

// endPosition returns where a run that has delivered something has ended; nil for the beginning.
func (q *sequence) endPosition(ctx context.Context, sr *streamRun) *checkpoint.Position {
	p := sr.stream.Position()
	if sr.run.Checkpoint != nil {
		p.Objects = nil         // the checkpoint has them
		if !sr.awaitAcks(ctx) { // the next run resumes from the checkpoint, and so does not skip what was not acked
			q.cursor.synced, p.ResourceVersions = false, nil
		}
	}
	if len(p.ResourceVersions)+len(p.Objects) == 0 {
		return nil
	}
	return &p
}

// resumesIn reports whether everything that the next run watches is synced.
func (c *cursor) resumesIn(namespaces []string) bool {
	if !c.synced || c.position == nil {
		return false
	}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	return !slices.ContainsFunc(namespaces, func(n string) bool { rv, _ := c.position.At(n); return rv == "" })
}

// start returns where the next run begins; nil is where the options say.
func (q *sequence) start() func() *checkpoint.Position {
	if q.cursor.position != nil {
		return func() *checkpoint.Position {
			from := q.cursor.position
			q.cursor.position = nil // it can be large, and the Stream has it now
			return from
		}
	}
	if q.followed.served.get().initial {
		return nil
	}
	return func() *checkpoint.Position { return nil } // all objects of a resource that was added later are new
}

// handleEnd handles the end of a run. It returns an error that is final.
func (q *sequence) handleEnd(ctx context.Context, r gvr.Resource, err error) error {
	var refused *stream.RequestError
	var gap *stream.GapError
	var gaveUp *stream.GaveUpError
	switch {
	case ctx.Err() != nil, err == nil:
		return nil
	case errors.As(err, &gap): // the position can't be resumed
		q.cursor.position, q.cursor.synced = nil, false
		return err
	case errors.As(err, &gaveUp), !errors.As(err, &refused):
		return err
	case apierrors.IsForbidden(err):
		q.followed.forbidden(r, refused.Namespace, err)
	case apierrors.IsNotFound(err):
		q.followed.rediscover(ctx, q.cursor.failures == 0)
		q.backOff(ctx, err, Gone, 500*time.Millisecond, 10*time.Second)
	default:
		q.backOff(ctx, err, Failing, 5*time.Second, 5*time.Minute)
	}
	return nil
}

// backOff waits before the next run, or until something changes.
func (q *sequence) backOff(ctx context.Context, err error, state State, first, most time.Duration) {
	q.followed.setState(state, err)
	q.cursor.failures++
	delay := wait.Doubled(q.cursor.failures, first, most)
	wait.Sleep(ctx, wait.Between(delay/2, delay), q.followed.changed)
}
