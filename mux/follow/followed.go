package follow

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// followed is a followed resource, and its mux.Source. Each of its parts is changed by one side: what is wanted by
// discovery, the run by the sequence. All sides report (setState). The methods are in the order of the sides.
type followed struct {
	common  *common
	key     string
	changed wait.Signal // what is wanted of the resource may have changed: discovery and the rights send it

	mu       sync.Mutex
	served   served
	last     lastRun
	status   ResourceStatus
	reported []string // the namespaces that were reported last

	cursor cursor // used by the sequence only, and when the source has been removed
}

// served is how a resource is served. Discovery changes it, and a run whose resource is gone (rediscover).
type served struct {
	resource gvr.Resource // in the version that is served, or was last
	now      bool
	initial  bool // was served when the run of the Mux began
	unknown  bool // discovery has not reported it since the last run of the Mux
}

// lastRun is the active streamRun of a resource, or else the last one. The sequence changes it.
type lastRun struct {
	stream  *stream.Stream // nil before the first
	active  bool
	synced  bool            // the run is active and has delivered SYNCED
	idle    bool            // there is nothing to watch
	ended   bool            // the sequence has ended in this run of the Mux, and goes on at its cursor if it is started again
	refused map[string]bool // namespaces, since they were watched last
}

// newFollowed returns the source of a resource. before is zero unless the resource was followed before in this run of
// the Mux.
func newFollowed(c *common, r gvr.Resource, initial bool, before kept) *followed {
	return &followed{
		common: c, key: r.GroupResource().String(), changed: wait.NewSignal(),
		served: served{resource: r, now: true, initial: initial},
		status: ResourceStatus{Resource: r, State: Starting, Since: time.Now(), Incarnation: before.incarnation + 1},
		last:   lastRun{ended: before.incarnation > 0, refused: map[string]bool{}}, cursor: before.cursor,
	}
}

// The Mux calls Key, Status and Events.

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
	return func(yield func(stream.Event, error) bool) { (&sequence{s, &s.cursor}).run(ctx, yield) }
}

// Discovery calls serve, remove and complete, and at the end of a run of the Mux reset.

// serve records that a resource is served, and how. It reports whether this is the first time in this run of the Mux.
func (s *followed) serve(r gvr.Resource, initial bool) (first bool) {
	s.mu.Lock()
	again, first := !s.served.now, s.served.unknown
	if first {
		s.status = ResourceStatus{State: Gone}
	}
	if again {
		s.status.Incarnation++
	}
	s.served = served{resource: r, now: true, initial: initial}
	s.status.Resource = r
	synced, namespaces := s.last.active && s.last.synced, s.status.Namespaces
	s.mu.Unlock()
	switch {
	case again && synced: // its watch is still open
		s.setWatching(r, namespaces, s.refusedNow())
	case again:
		s.setState(Starting, nil)
	}
	s.changed.Send()
	return first
}

// remove records that a resource is no longer served or, with a reason, is no longer to be watched.
func (s *followed) remove(reason error) {
	s.mu.Lock()
	r := s.served.resource
	s.served.now = false
	s.mu.Unlock()
	s.common.rights.forget(r.GroupResource())
	s.setState(Gone, reason)
	s.changed.Send()
}

// complete is called once everything that is served at the beginning of a run of the Mux is known.
func (s *followed) complete() {
	s.mu.Lock()
	unknown := s.served.unknown
	s.served.unknown = false
	s.mu.Unlock()
	if unknown {
		s.setState(Gone, nil)
	}
}

// reset prepares for the next run of the Mux, which discovers what is served.
func (s *followed) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served.now, s.served.unknown, s.last.ended = false, true, false
}

// The follower asks getStatus, isGone and hasSynced, from any goroutine.

// getStatus returns a copy.
func (s *followed) getStatus() ResourceStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.status
	status.Namespaces = slices.Clone(status.Namespaces)
	return status
}

// isGone reports whether a resource has not been served for a time, and whether it is idle: there is nothing to watch,
// and so nothing more will be delivered.
func (s *followed) isGone(since time.Duration) (gone, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone = !s.served.now && !s.served.unknown && s.status.State == Gone && time.Since(s.status.Since) >= since
	return gone, s.last.idle
}

// hasSynced reports whether Options.UntilSynced need not wait for the resource.
func (s *followed) hasSynced() bool {
	s.mu.Lock()
	run, state, namespaces := s.last, s.status.State, s.status.Namespaces
	s.mu.Unlock()
	switch state {
	case Starting:
		return false
	case Forbidden:
		if s.common.rights.unresolved() {
			return false
		}
		_, wanted, ok := s.wanted()
		return !run.active && !ok || run.synced && slices.Equal(wanted, namespaces)
	}
	return true
}

// The goroutines of the sequence call the following.

// wanted returns what is to be watched now, and false if nothing can be.
func (s *followed) wanted() (r gvr.Resource, namespaces []string, ok bool) {
	s.mu.Lock()
	r, served, last := s.served.resource, s.served.now, s.last.stream
	s.mu.Unlock()
	if !served {
		return r, nil, false
	}
	everywhere, allowed := s.common.rights.allowed(r.GroupResource())
	if everywhere {
		return r, s.common.selection.scope(r), true
	}
	if s.common.rights.pending(r.GroupResource()) {
		return r, nil, false
	}
	if last != nil {
		allowed = append(allowed, s.staying(last.Status(), allowed)...)
		slices.Sort(allowed)
	}
	return r, allowed, len(allowed) > 0
}

// staying returns namespaces that are still watched although the rights no longer allow it: an open watch may go on,
// and when a namespace is deleted, the rights in it may be deleted before its objects. Such a namespace stays until its
// watch is refused, or until it is deleted and DELETED of all its objects has been delivered.
func (s *followed) staying(st stream.Status, allowed []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var staying []string
	for _, one := range perNamespace(st) {
		n := one.Namespace
		if n != "" && !s.last.refused[n] && !slices.Contains(allowed, n) &&
			(one.Objects > 0 || s.common.rights.exists(n)) {
			staying = append(staying, n)
		}
	}
	return staying
}

// forbidden handles a refusal to let the resource be watched in a namespace, or across the cluster.
func (s *followed) forbidden(r gvr.Resource, namespace string, err error) {
	s.setState(Forbidden, err)
	s.mu.Lock()
	s.last.refused[namespace] = true
	s.mu.Unlock()
	s.common.rights.deny(r, namespace, s.changed.Send)
}

// rediscover finds out how a resource that has turned out to be gone is served now. With refresh the Resolver asks the
// server first.
func (s *followed) rediscover(ctx context.Context, refresh bool) {
	s.mu.Lock()
	r := s.served.resource
	s.mu.Unlock()
	if refresh {
		s.common.resolver.Refresh()
	}
	next := s.common.otherVersion(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.served.now && s.served.resource.Version == r.Version { // discovery has reported nothing else meanwhile
		s.served.resource, s.status.Resource = next, next
	}
}

func (s *followed) isServed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served.now
}

// refusedNow returns the namespaces, or the cluster (""), whose watches are refused at this moment.
func (s *followed) refusedNow() []string {
	var refused []string
	for _, one := range perNamespace(s.Status()) {
		if one.State == stream.Forbidden {
			refused = append(refused, one.Namespace)
		}
	}
	return refused
}

// perNamespace returns the Status of each namespace that is watched, or that of the cluster.
func perNamespace(st stream.Status) []stream.Status {
	if len(st.Namespaces) == 0 {
		return []stream.Status{st}
	}
	return st.Namespaces
}

// setWatching sets the state of a resource that is SYNCED in these namespaces.
func (s *followed) setWatching(r gvr.Resource, namespaces, refused []string) {
	everything := slices.Equal(namespaces, s.common.selection.scope(r))
	if everything && len(refused) == 0 && !s.common.rights.pending(r.GroupResource()) {
		s.common.rights.forget(r.GroupResource())
		s.setState(Watching, nil)
	} else {
		s.setState(Forbidden, nil) // in other namespaces; the cause stays
	}
}

// setState sets a state. If the state stays the same, a nil cause keeps the old cause.
func (s *followed) setState(state State, cause error) {
	s.mu.Lock()
	old := s.status
	if state != old.State {
		s.status.State, s.status.Since, s.status.Cause = state, time.Now(), cause
	} else if cause != nil {
		s.status.Cause = cause
	}
	now := s.status
	now.Namespaces = slices.Clone(now.Namespaces)
	changed := now.State != old.State || !slices.Equal(now.Namespaces, s.reported)
	s.reported = now.Namespaces
	s.mu.Unlock()
	if changed {
		s.common.report(now)
	}
}
