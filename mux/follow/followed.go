package follow

import (
	"context"
	"errors"
	"iter"
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

// followed is the mux.Source of a followed resource. Its sequence consists of runs of several Streams, one after the
// other. A new run begins when the resource is served again or in another version, when its watch moves between the
// cluster and single namespaces, and after a failure. Each run resumes where the one before it ended.
type followed struct {
	follower *follower
	key      string
	changed  wait.Signal // what is wanted of the resource may have changed

	mu       sync.Mutex
	served   served
	status   ResourceStatus
	reported []string // the namespaces that were reported last
	last     lastRun
	refused  map[string]bool // namespaces, since they were watched last

	cursor cursor // used by the goroutine of the source only
}

// sequence is what is kept of a resource that is gone, so that its sequence goes on if it is served again.
type sequence struct {
	cursor      cursor
	incarnation int
	dropped     bool // it was Dropped, so that it does not go on
}

// served is how a resource is served.
type served struct {
	resource gvr.Resource // in the version that is served, or was last
	now      bool
	initial  bool // was served when the run of the Mux began
	unknown  bool // discovery has not reported it since the last run of the Mux
}

// lastRun is the active streamRun of a resource, or else the last one.
type lastRun struct {
	stream *stream.Stream // nil before the first
	active bool
	synced bool // the run is active and has delivered SYNCED
	idle   bool // there is nothing to watch
	ended  bool // the source has ended in this run of the Mux, and goes on at its cursor if it is started again
}

// cursor is where the next streamRun begins.
type cursor struct {
	position  *checkpoint.Position // where the last run ended; nil for none
	delivered bool                 // an event, so that a position is worth keeping
	synced    bool                 // SYNCED was delivered, and no GAP since
	failures  int                  // runs that failed in a row
}

// newFollowed returns the source of a resource. before is zero unless the resource was followed before in this run of
// the Mux.
func newFollowed(f *follower, r gvr.Resource, initial bool, before sequence) *followed {
	return &followed{
		follower: f, key: r.GroupResource().String(), changed: wait.NewSignal(), refused: map[string]bool{},
		served: served{resource: r, now: true, initial: initial},
		status: ResourceStatus{Resource: r, State: Starting, Since: time.Now(), Incarnation: before.incarnation + 1},
		last:   lastRun{ended: before.incarnation > 0}, cursor: before.cursor,
	}
}

func (s *followed) Key() string { return s.key }

// Status returns that of the Stream.
func (s *followed) Status() stream.Status {
	s.mu.Lock()
	st := s.last.stream
	s.mu.Unlock()
	if st == nil {
		return stream.Status{State: stream.Idle}
	}
	return st.Status()
}

func (s *followed) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		s.mu.Lock()
		if !s.last.ended { // else it goes on
			s.last.stream, s.refused, s.cursor = nil, map[string]bool{}, cursor{}
		}
		s.mu.Unlock()
		failed := true // also if the Stream panics
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.last.ended = failed && !s.served.unknown
		}()
		for {
			resource, namespaces, err := s.await(ctx)
			if err == nil {
				var ok bool
				if ok, err = s.watch(ctx, resource, namespaces, yield); !ok {
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
}

// await waits until there is something to watch.
func (s *followed) await(ctx context.Context) (gvr.Resource, []string, error) {
	for {
		if ctx.Err() != nil {
			return gvr.Resource{}, nil, context.Cause(ctx)
		}
		resource, namespaces, ok := s.wanted()
		if ok {
			return resource, namespaces, nil
		}
		if !s.follower.rights.pending(resource.GroupResource()) {
			s.nowhere()
		}
		s.setIdle(true)
		select {
		case <-s.changed:
		case <-ctx.Done():
		}
		s.setIdle(false)
	}
}

// watch is one streamRun. It returns false if the loop was left, and an error that is final.
func (s *followed) watch(
	ctx context.Context, resource gvr.Resource, namespaces []string, yield func(stream.Event, error) bool,
) (bool, error) {
	sr, err := s.newRun(resource, namespaces)
	if err != nil {
		return true, err
	}
	resumes := s.cursor.resumesIn(namespaces)
	o := host.Run{Start: s.start(), Lists: s.follower.sources.lists, Namespaces: sr.namespaces,
		Again: s.cursor.delivered}
	runCtx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	s.setActive(true)
	defer s.setActive(false)
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
		s.cursor.delivered = true
		switch ev.Type {
		case stream.Gap:
			s.cursor.synced, resumes = false, false
		case stream.Synced:
			s.cursor.failures, s.cursor.synced = 0, true
			if resumes && slices.Equal(s.getStatus().Namespaces, namespaces) { // the loop has it from the run before
				resumes = false
				ev.Ack()
				s.watching(sr)
				continue
			}
		}
		if !sr.deliver(ev, yield) {
			return false, nil
		}
		if ev.Type == stream.Synced {
			s.watching(sr)
			s.follower.checkSynced()
		}
	}
	if p := s.endPosition(ctx, sr); s.cursor.delivered { // else the next run is the first one
		s.cursor.position = p
	}
	return true, s.handleEnd(ctx, resource, err)
}

// endPosition returns where a run that has delivered something has ended; nil for the beginning.
func (s *followed) endPosition(ctx context.Context, sr *streamRun) *checkpoint.Position {
	p := sr.stream.Position()
	if sr.run.Checkpoint != nil {
		p.Objects = nil         // the checkpoint has them
		if !sr.awaitAcks(ctx) { // the next run resumes from the checkpoint, and so does not skip what was not acked
			s.cursor.synced, p.ResourceVersions = false, nil
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
func (s *followed) start() func() *checkpoint.Position {
	if s.cursor.position != nil {
		return func() *checkpoint.Position {
			from := s.cursor.position
			s.cursor.position = nil // it can be large, and the Stream has it now
			return from
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served.initial {
		return nil
	}
	return func() *checkpoint.Position { return nil } // all objects of a resource that was added later are new
}

// handleEnd handles the end of a run. It returns an error that is final.
func (s *followed) handleEnd(ctx context.Context, r gvr.Resource, err error) error {
	var refused *stream.RequestError
	var gap *stream.GapError
	var gaveUp *stream.GaveUpError
	switch {
	case ctx.Err() != nil, err == nil:
		return nil
	case errors.As(err, &gap): // the position can't be resumed
		s.cursor.position, s.cursor.synced = nil, false
		return err
	case errors.As(err, &gaveUp), !errors.As(err, &refused):
		return err
	case apierrors.IsForbidden(err):
		s.forbidden(r, refused.Namespace, err)
	case apierrors.IsNotFound(err):
		s.rediscover(ctx, s.cursor.failures == 0)
		s.backOff(ctx, err, Gone, 500*time.Millisecond, 10*time.Second)
	default:
		s.backOff(ctx, err, Failing, 5*time.Second, 5*time.Minute)
	}
	return nil
}

// backOff waits before the next run, or until something changes.
func (s *followed) backOff(ctx context.Context, err error, state State, first, most time.Duration) {
	s.setState(state, err)
	s.cursor.failures++
	delay := wait.Doubled(s.cursor.failures, first, most)
	wait.Sleep(ctx, wait.Between(delay/2, delay), s.changed)
}
