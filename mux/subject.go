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

	// These are of the goroutine that ranges.
	position *checkpoint.Position // where the last leg ended; nil for a beginning
	synced   bool                 // SYNCED was told, and no GAP since
	failed   int64                // the range of the Mux in which it ended with an error, zero if it did not
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
	return s.EventsWith(ctx, stream.Range{})
}

// Position is empty: the subject knows itself where to go on.
func (s *subject) Position() checkpoint.Position { return checkpoint.Position{} }

func (s *subject) EventsWith(ctx context.Context, r stream.Range) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		if now := s.follow.ranges.Load(); s.failed != now { // or else it is tried again
			s.position, s.synced, s.failures = nil, false, 0
			s.mu.Lock()
			s.stream, s.refused = nil, map[string]bool{}
			s.mu.Unlock()
		}
		s.failed = 0
		for {
			resource, namespaces, err := s.await(ctx)
			if err == nil {
				var ok bool
				if ok, err = s.leg(ctx, r, resource, namespaces, yield); !ok {
					return
				}
			}
			if ctx.Err() != nil {
				yield(stream.Event{}, context.Cause(ctx))
				return
			}
			if err != nil {
				s.failed = s.follow.ranges.Load()
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
		s.nowhere()
		select {
		case <-s.news:
		case <-ctx.Done():
		}
	}
}

// nowhere reports that a resource may be watched in no namespace any more.
func (s *subject) nowhere() {
	s.mu.Lock()
	if !s.served || s.status.State != FollowForbidden || len(s.shown) == 0 {
		s.mu.Unlock()
		return
	}
	s.status.Namespaces, s.shown = nil, nil
	now := s.status
	s.mu.Unlock()
	s.follow.options.statusChanged(now)
}

// wants says what is to be watched now, if anything can be.
func (s *subject) wants() (r gvr.Resource, namespaces []string, ok bool) {
	s.mu.Lock()
	r, served, last := s.resource, s.served, s.stream
	s.mu.Unlock()
	if !served {
		return r, nil, false
	}
	everywhere, allowed := s.follow.rights.of(r.GroupResource())
	if everywhere {
		return r, s.follow.selection.scope(r), true
	}
	if s.follow.rights.pending(r.GroupResource()) {
		return r, nil, false
	}
	if last != nil {
		allowed = append(allowed, s.staying(last.Status(), allowed)...)
		slices.Sort(allowed)
	}
	return r, allowed, len(allowed) > 0
}

// staying are namespaces that are watched and, as it seems, no longer should be: a
// watch that is open may go on, and when a namespace is deleted the rights in it
// may be gone before its objects are. They stay until the watch itself is refused,
// or the namespace is gone and the end of all its objects has been told.
func (s *subject) staying(st stream.Status, allowed []string) []string {
	all := st.Namespaces
	if len(all) == 0 {
		all = []stream.Status{st}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var staying []string
	for _, one := range all {
		n := one.Namespace
		if n != "" && !s.refused[n] && !slices.Contains(allowed, n) && (one.Objects > 0 || s.follow.rights.exists(n)) {
			staying = append(staying, n)
		}
	}
	return staying
}

// leg watches until something else is to be watched. It returns false if the loop
// was left, and an error if that is final.
func (s *subject) leg(ctx context.Context, r stream.Range, resource gvr.Resource, namespaces []string, yield func(stream.Event, error) bool) (bool, error) {
	l, err := s.newLeg(resource, namespaces)
	if err != nil {
		return true, err
	}
	resumes := s.synced && s.resumes(namespaces)
	r.Start = s.start()
	legCtx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	s.runs(true)
	defer s.runs(false)
	running.Go(func() { l.supervise(legCtx, cancel) })
	defer running.Wait()
	defer cancel(errLegOver)
	for ev, legErr := range l.stream.EventsWith(legCtx, r) {
		if legErr != nil && legErr != errLegOver {
			err = legErr
		}
		if legErr != nil {
			break
		}
		switch ev.Type {
		case stream.Gap:
			s.synced, resumes = false, false
		case stream.Synced:
			s.failures = 0
			if resumes { // nothing new: it is only that the watch is another one
				resumes = false
				ev.Ack()
				s.watching(resource, namespaces)
				continue
			}
			s.synced = true
		}
		if !l.tell(ev, yield) {
			return false, nil
		}
		if ev.Type == stream.Synced {
			s.watching(resource, namespaces)
			s.follow.checkSynced()
		}
	}
	p := l.stream.Position()
	if l.options.Checkpoint != nil {
		p.Objects = nil // the checkpoint has them
		s.synced = l.awaitAcks(ctx) && s.synced
	}
	if len(p.ResourceVersions)+len(p.Objects) > 0 { // else it still is to begin
		s.position = &p
	}
	return true, s.ended(ctx, resource, err)
}

// start is where the next leg begins; nil is where the options say.
func (s *subject) start() func() stream.Start {
	if s.position != nil {
		return func() stream.Start {
			from := stream.From(*s.position)
			s.position = nil // it can be large, and the stream has it now
			return from
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first {
		return nil
	}
	return stream.Snapshot // of one that has come since, everything is new
}

// resumes says whether all that is watched by the next leg is known.
func (s *subject) resumes(namespaces []string) bool {
	if s.position == nil {
		return false
	}
	v := checkpoint.Versions(s.position.ResourceVersions)
	if len(namespaces) == 0 {
		_, listed, ok := v.Lowest()
		return ok && !listed
	}
	return !slices.ContainsFunc(namespaces, func(n string) bool { return v.Of(n) == "" })
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

// forbidden says that the resource may not be watched in a namespace, or across
// the cluster.
func (s *subject) forbidden(r gvr.Resource, namespace string, err error) {
	s.set(FollowForbidden, err)
	s.mu.Lock()
	s.refused[namespace] = true
	s.mu.Unlock()
	s.follow.rights.deny(r, namespace, s.follow.selection.scope(r), s.tell)
}

// watching says that everything that a leg watches has been told.
func (s *subject) watching(r gvr.Resource, namespaces []string) {
	s.mu.Lock()
	s.told = s.running
	for _, n := range namespaces {
		delete(s.refused, n)
	}
	s.mu.Unlock()
	if slices.Equal(namespaces, s.follow.selection.scope(r)) {
		s.follow.rights.forget(r.GroupResource())
		s.set(FollowWatching, nil)
	} else {
		s.set(FollowForbidden, nil) // elsewhere; the cause stays
	}
}

// pause waits before the next leg, unless there is news.
func (s *subject) pause(ctx context.Context, err error, state FollowState, least, most time.Duration) {
	s.set(state, err)
	s.failures++
	wait := min(least<<min(s.failures-1, 10), most)
	timer := time.NewTimer(wait/2 + rand.N(wait/2)) // not all at the same time
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.news:
	case <-ctx.Done():
	}
}

func (s *subject) isServed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// tell says that there is news.
func (s *subject) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// serve says how the resource is served now, and returns whether that is the first
// time in this range.
func (s *subject) serve(r gvr.Resource, first bool) bool {
	s.mu.Lock()
	again, anew := !s.served, s.over
	if anew {
		s.status = Followed{State: FollowGone}
	}
	if again {
		s.status.Incarnation++
	}
	s.resource, s.served, s.first, s.over = r, true, first, false
	s.status.Resource = r
	watched, namespaces := s.running && s.told, s.status.Namespaces
	s.mu.Unlock()
	switch {
	case again && watched: // its watch has not ended meanwhile
		s.watching(r, namespaces)
	case again:
		s.set(FollowStarting, nil)
	}
	s.tell()
	return anew
}

// begun: what is served at the beginning of a range is known.
func (s *subject) begun() {
	s.mu.Lock()
	over := s.over
	s.over = false
	s.mu.Unlock()
	if over {
		s.set(FollowGone, nil)
	}
}

// look looks again how a resource is served that has turned out not to be. If that
// is new, the server is asked, too.
func (s *subject) look(ctx context.Context, news bool) {
	s.mu.Lock()
	r := s.resource
	s.mu.Unlock()
	if news {
		s.follow.resolver.Kick()
	}
	next := s.follow.elsewhere(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served && s.resource.Version == r.Version { // nobody has said anything else meanwhile
		s.resource, s.status.Resource = next, next
	}
}

// reset is for the end of a range: the next one finds out anew what is served.
func (s *subject) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served, s.over = false, true
}

func (s *subject) runs(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.told = running, false
}

// isSettled says whether nothing is to be waited for before the first SYNCED.
func (s *subject) isSettled() bool {
	s.mu.Lock()
	running, told, state, r := s.running, s.told, s.status.State, s.resource
	s.mu.Unlock()
	switch state {
	case FollowStarting:
		return false
	case FollowForbidden:
		return told || !running && !s.follow.rights.unsure(r.GroupResource()) && !s.mayWatch()
	}
	return true
}

// mayWatch says whether there is something to be watched.
func (s *subject) mayWatch() bool {
	_, _, ok := s.wants()
	return ok
}

func (s *subject) followed() Followed {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.status
	one.Namespaces = slices.Clone(one.Namespaces)
	return one
}

// remove says that it is served no more, or why it is not to be watched.
func (s *subject) remove(why error) {
	s.mu.Lock()
	r := s.resource
	s.served = false
	s.mu.Unlock()
	s.follow.rights.forget(r.GroupResource())
	s.set(FollowGone, why)
	s.tell()
}
