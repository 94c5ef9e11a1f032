package follow

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

const (
	// quietTime is how long a resource that is no longer served must have delivered nothing before its watch is ended,
	// if the server does not end it: DELETED of its objects may still come.
	quietTime = time.Second
	// ackTimeout is how long a run that has ended waits for acks. What is not acked is delivered again.
	ackTimeout = 5 * time.Second
	// goneDelay is the wait before retrying a resource that is gone although discovery says that it is served.
	goneDelay = 500 * time.Millisecond
	// pollInterval is how often to check values whose changes no event reports.
	pollInterval = 50 * time.Millisecond
)

// streamRun is one run of a Stream for a followed resource.
type streamRun struct {
	followed    *followed
	resource    gvr.Resource
	namespaces  *host.Namespaces
	clusterWide bool // namespaces is empty
	run         stream.Run
	stream      *stream.Stream
	sequence    *stream.Sequence
	states      chan stream.Status // Forbidden or Gone
	began       time.Time
	// quietSince is when the loop returned from the last event, in ns since began; zero while it handles one. The wall
	// clock may jump.
	quietSince atomic.Int64
}

// errRunOver ends a run.
var errRunOver = errors.New("something else is to be watched")

// trace returns a copy of the Trace of the options, which may be nil, that also passes states to supervise.
func (sr *streamRun) trace(given *stream.Trace) *stream.Trace {
	trace := *cmp.Or(given, &stream.Trace{})
	changed := trace.StatusChanged
	trace.StatusChanged = func(st stream.Status) {
		if changed != nil {
			changed(st)
		}
		if st.State != stream.Forbidden && st.State != stream.Gone {
			return
		}
		select {
		case sr.states <- st:
		default: // one of them is enough to end the run
		}
	}
	return &trace
}

// deliver yields an event.
func (sr *streamRun) deliver(ev stream.Event, yield func(stream.Event, error) bool) bool {
	sr.quietSince.Store(0)
	defer sr.setQuiet()
	return yield(ev, nil)
}

func (sr *streamRun) setQuiet() { sr.quietSince.Store(max(1, int64(time.Since(sr.began)))) }

// supervise ends the run when something else is to be watched. (Stop would be lost before the run has begun.)
func (sr *streamRun) supervise(ctx context.Context, end context.CancelCauseFunc) {
	s := sr.followed
	defer func() {
		if p := recover(); p != nil { // in a function of the options
			end(&stream.PanicError{Where: s.key, Value: p, Stack: debug.Stack()})
		}
	}()
	var tick <-chan time.Time // time alone may end the wait for DELETED events (staying)
	if !sr.clusterWide {
		tick = time.Tick(time.Second)
	}
	refused := false // across the cluster: even if that is allowed again, a new run is needed for SYNCED
	for {
		restart := false
		select {
		case <-tick:
		case <-s.changed:
		case st := <-sr.states:
			restart = sr.handleState(ctx, st)
			refused = refused || sr.clusterWide && st.State == stream.Forbidden
		case <-ctx.Done():
			return
		}
		r, namespaces, ok := s.wanted()
		same := ok && r.String() == sr.resource.String() && r.Namespaced == sr.resource.Namespaced &&
			sr.clusterWide == (len(namespaces) == 0)
		switch {
		case !s.get().served.now:
			if !sr.awaitEnd(ctx) {
				continue // it is served again, perhaps in another way, as a change will report
			}
		case s.common.rights.pending(r.GroupResource()):
			continue // a change will follow
		case same && !restart && !refused:
			sr.move(namespaces)
			continue
		}
		s.changed.Send()
		end(errRunOver)
		return
	}
}

// move makes the run watch other namespaces. The watches of those that stay go on.
func (sr *streamRun) move(namespaces []string) {
	moved, synced := sr.followed.move(namespaces)
	if !moved {
		return
	}
	sr.namespaces.Set(namespaces)
	if synced {
		sr.followed.setState(Forbidden, nil)
		sr.followed.common.onSynced()
	}
}

// handleState handles states in which the Stream would retry slowly. It reports whether the run has to be restarted
// even if the same is to be watched.
func (sr *streamRun) handleState(ctx context.Context, st stream.Status) (restart bool) {
	if st.State == stream.Forbidden {
		sr.followed.forbidden(sr.resource, st.Namespace, st.Cause)
		return false
	}
	// The resource has been deleted, or deleted and created, which discovery may miss.
	sr.followed.rediscover(ctx, true)
	wait.Sleep(ctx, goneDelay, sr.followed.changed)
	return true
}

// awaitEnd waits until nothing more can come of a resource that is not served. It returns false if it is served again.
func (sr *streamRun) awaitEnd(ctx context.Context) bool {
	pollUntil(ctx, func() bool {
		since := time.Duration(sr.quietSince.Load())
		quiet := since != 0 && time.Since(sr.began)-since > quietTime
		return quiet || sr.stream.Status().State == stream.Gone || sr.followed.get().served.now
	})
	return !sr.followed.get().served.now
}

// awaitAcks waits up to ackTimeout until all events are acked, and reports whether they are.
func (sr *streamRun) awaitAcks(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	return pollUntil(ctx, func() bool { return sr.stream.Status().Checkpoint.Unacked == 0 })
}

// pollUntil waits until a condition holds. It returns false if ctx ends first.
func pollUntil(ctx context.Context, condition func() bool) bool {
	for !condition() {
		if !wait.Sleep(ctx, pollInterval, nil) {
			return false
		}
	}
	return true
}
