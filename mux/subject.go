package mux

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/run"
	"github.com/gvrwatch/gvrwatch/stream"
)

// subject is the source of one resource that is followed. Its sequence is made of
// the ranges ("legs") of several Streams, one after the other: as the resource
// comes and goes, is served in another version, or may be watched elsewhere. Each
// goes on where the one before it was.
type subject struct {
	follow *follow
	key    string

	news chan struct{} // of capacity one: something of what follows has changed

	mu       sync.Mutex
	resource gvr.Resource // as it is served, or was
	served   bool
	over     bool // nothing is known since the last range
	first    bool // it was served when everything began
	status   Followed
	shown    []string        // the namespaces that were reported last
	running  bool            // a leg is running
	told     bool            // ... and has told SYNCED
	stream   *stream.Stream  // of the leg that runs, or ran last
	refused  map[string]bool // namespaces, since they were watched last
	failed   bool            // it ended with an error, in a range that is not over

	// These are of the goroutine that ranges.
	position *checkpoint.Position // where the last leg ended; nil for a beginning
	synced   bool                 // SYNCED was told, and no GAP since
	failures int                  // legs that failed in a row
}

func newSubject(f *follow, r gvr.Resource, first bool) *subject {
	return &subject{
		follow: f, key: r.GroupResource().String(), news: make(chan struct{}, 1), refused: map[string]bool{},
		resource: r, served: true, first: first,
		status: Followed{Resource: r, State: FollowStarting, Since: time.Now(), Incarnation: 1},
	}
}

// errLegOver ends a leg.
var errLegOver = errors.New("the leg is over")

func (s *subject) Key() string { return s.key }

// Status is that of the leg's Stream.
func (s *subject) Status() stream.Status {
	s.mu.Lock()
	st := s.stream
	s.mu.Unlock()
	if st == nil {
		return stream.Status{State: stream.Idle}
	}
	return st.Status()
}

func (s *subject) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		s.mu.Lock()
		again := s.failed // in this range: it is tried again
		if !again {
			s.stream, s.refused = nil, map[string]bool{}
		}
		s.failed = false
		s.mu.Unlock()
		if !again {
			s.position, s.synced, s.failures = nil, false, 0
		}
		for {
			resource, namespaces, err := s.await(ctx)
			if err == nil {
				var ok bool
				if ok, err = s.leg(ctx, resource, namespaces, yield); !ok {
					return
				}
			}
			if ctx.Err() != nil {
				yield(stream.Event{}, context.Cause(ctx))
				return
			}
			if err != nil {
				s.mu.Lock()
				s.failed = !s.over
				s.mu.Unlock()
				yield(stream.Event{}, err)
				return
			}
		}
	}
}

// await waits until there is something to watch.
func (s *subject) await(ctx context.Context) (gvr.Resource, []string, error) {
	for {
		if ctx.Err() != nil {
			return gvr.Resource{}, nil, context.Cause(ctx)
		}
		resource, namespaces, ok := s.wants()
		if ok {
			return resource, namespaces, nil
		}
		if !s.follow.rights.pending(resource.GroupResource()) {
			s.nowhere()
		}
		select {
		case <-s.news:
		case <-ctx.Done():
		}
	}
}

// leg watches until something else is to be watched. It returns false if the loop
// was left, and an error if that is final.
func (s *subject) leg(
	ctx context.Context, resource gvr.Resource, namespaces []string, yield func(stream.Event, error) bool,
) (bool, error) {
	l, err := s.newLeg(resource, namespaces)
	if err != nil {
		return true, err
	}
	where := namespaces
	if len(where) == 0 {
		where = []string{""}
	}
	unknown := func(n string) bool { rv, _ := s.position.At(n); return rv == "" }
	resumes := s.synced && s.position != nil && !slices.ContainsFunc(where, unknown)
	told := s.position != nil // something, so that the leg's position is worth something
	o := run.Options{Start: s.start(), Lists: s.follow.mux.lists, Namespaces: l.namespaces}
	legCtx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	s.runs(true)
	defer s.runs(false)
	running.Go(func() { l.supervise(legCtx, cancel) })
	defer running.Wait()
	defer cancel(errLegOver)
	for ev, legErr := range withOptions(l.stream)(legCtx, o) {
		if legErr != nil && legErr != errLegOver {
			err = legErr
		}
		if legErr != nil {
			break
		}
		told = true
		switch ev.Type {
		case stream.Gap:
			s.synced, resumes = false, false
		case stream.Synced:
			s.failures, s.synced = 0, true
			if resumes && slices.Equal(s.followed().Namespaces, namespaces) { // nothing new: only the watch is another one
				resumes = false
				ev.Ack()
				s.watching(l)
				continue
			}
		}
		if !l.tell(ev, yield) {
			return false, nil
		}
		if ev.Type == stream.Synced {
			s.watching(l)
			s.follow.checkSynced()
		}
	}
	p := l.stream.Position()
	if l.options.Checkpoint != nil {
		p.Objects = nil // the checkpoint has them
		acked := l.awaitAcks(ctx)
		s.synced = acked && s.synced
		if !acked { // the next one goes on from the checkpoint, or begins: nothing that was not acked is passed
			p.ResourceVersions = nil
		}
	}
	if told && len(p.ResourceVersions)+len(p.Objects) > 0 { // else it still is to begin
		s.position = &p
	}
	return true, s.ended(ctx, resource, err)
}

// start is where the next leg begins; nil is where the options say.
func (s *subject) start() func() *checkpoint.Position {
	if s.position != nil {
		return func() *checkpoint.Position {
			from := s.position
			s.position = nil // it can be large, and the stream has it now
			return from
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first {
		return nil
	}
	return func() *checkpoint.Position { return nil } // of one that has come since, everything is new
}

// ended decides what the end of a leg means. It returns an error that is final.
func (s *subject) ended(ctx context.Context, r gvr.Resource, err error) error {
	var refused *stream.RequestError
	var gap *stream.GapError
	var gaveUp *stream.GaveUpError
	switch {
	case ctx.Err() != nil, err == nil:
		return nil
	case errors.As(err, &gap): // where it was there is nothing to go on from
		s.position, s.synced = nil, false
		return err
	case errors.As(err, &gaveUp), !errors.As(err, &refused):
		return err
	case apierrors.IsForbidden(err):
		s.forbidden(r, refused.Namespace, err)
		return nil
	case apierrors.IsNotFound(err):
		s.look(ctx, s.failures == 0)
		s.pause(ctx, err, FollowGone, 500*time.Millisecond, 10*time.Second)
	default:
		s.pause(ctx, err, FollowFailing, 5*time.Second, 5*time.Minute)
	}
	return nil
}

// pause waits before the next leg, unless there is news.
func (s *subject) pause(ctx context.Context, err error, state FollowState, least, most time.Duration) {
	s.set(state, err)
	s.failures++
	wait := min(least<<min(s.failures-1, 10), most)
	pause(ctx, wait/2+rand.N(wait/2), s.news) // not all at the same time
}

// tell says that there is news.
func (s *subject) tell() { signal(s.news) }

// signal leaves something in a channel of capacity one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is something
	}
}
