package mux

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/run"
	"github.com/gvrwatch/gvrwatch/stream"
)

const (
	// partingTime is how long a resource that is no longer served must have told
	// nothing before its watch is ended, if the server does not end it: the end of its
	// objects may be on the way.
	partingTime = time.Second
	// ackTime is how long a leg waits at its end for what it told to be acked: what is
	// not comes again.
	ackTime = 5 * time.Second
	// goneTime is how long a resource may be missing, though it is said to be served,
	// before it is tried again.
	goneTime = 500 * time.Millisecond
	// glance is how often something is looked at that tells nobody when it changes.
	glance = 50 * time.Millisecond
)

// leg is one range of a subject's sequence.
type leg struct {
	subject    *subject
	resource   gvr.Resource
	namespaces *run.Namespaces // it is watched in
	everywhere bool            // ... which stand for the whole cluster
	options    stream.Options
	stream     *stream.Stream
	states     chan stream.Status // that need a decision
	told       atomic.Int64       // when it told something last, in ns; zero while the loop has it at hand
}

// tell yields an event.
func (l *leg) tell(ev stream.Event, yield func(stream.Event, error) bool) bool {
	l.told.Store(0)
	defer func() { l.told.Store(time.Now().UnixNano()) }()
	return yield(ev, nil)
}

func (s *subject) newLeg(r gvr.Resource, namespaces []string) (*leg, error) {
	o, err := s.follow.options.streamOptions(r)
	if err != nil {
		return nil, err
	}
	l := &leg{
		subject: s, resource: r, everywhere: len(namespaces) == 0, options: o, states: make(chan stream.Status, 1),
	}
	l.namespaces = run.NewNamespaces(namespaces, func(namespace string, err error) {
		s.forbidden(r, namespace, err)
		s.tell()
	})
	l.options.Namespaces = s.follow.selection.scope(r)
	if s.follow.options.UntilSynced && o.Checkpoint != nil && !s.synced {
		// SYNCED is to come after what has happened since the checkpoint, not before.
		l.options.End = stream.WhenSynced
	}
	trace := stream.Trace{}
	if l.options.Trace != nil {
		trace = *l.options.Trace
	}
	changed := trace.StatusChanged
	trace.StatusChanged = func(st stream.Status) {
		if changed != nil {
			changed(st)
		}
		if st.State != stream.Forbidden && st.State != stream.Gone {
			return
		}
		select {
		case l.states <- st:
		default: // one is enough to end the leg
		}
	}
	l.options.Trace = &trace
	st, err := stream.New(s.follow.client, r, &l.options)
	if err != nil {
		return nil, err
	}
	l.stream = st
	l.told.Store(time.Now().UnixNano())
	s.mu.Lock()
	s.stream = st
	s.status.Namespaces = namespaces
	s.mu.Unlock()
	return l, nil
}

// supervise ends the leg when it should be another one, or none. (A Stop could come
// before the range has begun, and be lost.)
func (l *leg) supervise(ctx context.Context, end context.CancelCauseFunc) {
	defer func() {
		if p := recover(); p != nil { // of what is the caller's
			end(&PanicError{Key: l.subject.key, Value: p, Stack: debug.Stack()})
		}
	}()
	var passing <-chan time.Time // of time, which is all that ends a wait for what is still to be told
	if !l.everywhere {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		passing = ticker.C
	}
	for {
		again := false
		select {
		case <-passing:
		case <-l.subject.news:
		case st := <-l.states:
			again = l.concerned(ctx, st)
		case <-ctx.Done():
			return
		}
		r, namespaces, ok := l.subject.wants()
		switch {
		case l.subject.isServed() && !again && l.subject.follow.rights.pending(r.GroupResource()):
			continue // there will be news
		case !l.subject.isServed():
			if !l.part(ctx) {
				l.subject.tell() // it is served again, as something else maybe
				continue
			}
		case again:
		case ok && r.String() == l.resource.String() && r.Namespaced == l.resource.Namespaced &&
			l.everywhere == (len(namespaces) == 0):
			l.subject.move(l, namespaces)
			continue
		}
		l.subject.tell()
		end(errLegOver)
		return
	}
}

// concerned is for states in which the Stream tries again, slowly, and something
// better can be done. It says whether the leg is to begin again, if it goes on.
func (l *leg) concerned(ctx context.Context, st stream.Status) (again bool) {
	if st.State == stream.Forbidden {
		l.subject.forbidden(l.resource, st.Namespace, st.Cause)
		return false
	}
	// It was removed, or removed and added again, which nobody else might notice.
	l.subject.look(ctx, true)
	pause(ctx, goneTime, l.subject.news)
	return true
}

// part waits until nothing more can come of a resource that is not served. It
// returns false if it is served again.
func (l *leg) part(ctx context.Context) bool {
	await(ctx, func() bool {
		told := l.told.Load()
		quiet := told != 0 && time.Since(time.Unix(0, told)) > partingTime
		return quiet || l.stream.Status().State == stream.Gone || l.subject.isServed()
	})
	return !l.subject.isServed()
}

// awaitAcks waits until what was told has been acked, for a while, and says whether
// it has: what has not comes again.
func (l *leg) awaitAcks(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, ackTime)
	defer cancel()
	return await(ctx, func() bool { return l.stream.Status().Checkpoint.Unacked == 0 })
}

// await waits until something holds, and says whether it does.
func await(ctx context.Context, holds func() bool) bool {
	for !holds() {
		if !pause(ctx, glance, nil) {
			return false
		}
	}
	return true
}
