package follow

import (
	"context"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// wanted returns what is to be watched now, and false if nothing can be.
func (s *followed) wanted() (r gvr.Resource, namespaces []string, ok bool) {
	s.mu.Lock()
	r, served, last := s.served.resource, s.served.now, s.last.stream
	s.mu.Unlock()
	if !served {
		return r, nil, false
	}
	everywhere, allowed := s.follower.rights.allowed(r.GroupResource())
	if everywhere {
		return r, s.follower.selection.scope(r), true
	}
	if s.follower.rights.pending(r.GroupResource()) {
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
		if n != "" && !s.refused[n] && !slices.Contains(allowed, n) &&
			(one.Objects > 0 || s.follower.rights.exists(n)) {
			staying = append(staying, n)
		}
	}
	return staying
}

// forbidden handles a refusal to let the resource be watched in a namespace, or across the cluster.
func (s *followed) forbidden(r gvr.Resource, namespace string, err error) {
	s.setState(Forbidden, err)
	s.mu.Lock()
	s.refused[namespace] = true
	s.mu.Unlock()
	s.follower.rights.deny(r, namespace, s.changed.Send)
}

// nowhere reports that a resource may be watched in no namespace any more.
func (s *followed) nowhere() {
	s.mu.Lock()
	nowhere := s.served.now && s.status.State == Forbidden
	if nowhere {
		s.status.Namespaces = nil
	}
	s.mu.Unlock()
	if nowhere {
		s.setState(Forbidden, nil)
	}
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

// move makes a run watch other namespaces. The watches of those that stay go on.
func (s *followed) move(sr *streamRun, namespaces []string) {
	s.mu.Lock()
	old := s.status.Namespaces
	isNew := func(n string) bool { return !slices.Contains(old, n) || s.refused[n] }
	more := slices.ContainsFunc(namespaces, isNew)
	if !more && len(namespaces) == len(old) {
		s.mu.Unlock()
		return
	}
	s.status.Namespaces = namespaces
	s.last.synced = s.last.synced && !more
	synced := s.last.synced
	s.mu.Unlock()
	sr.namespaces.Set(namespaces)
	if synced {
		s.setState(Forbidden, nil)
		s.follower.checkSynced()
	}
}

// watching updates the state after SYNCED has been delivered.
func (s *followed) watching(sr *streamRun) {
	refused := s.refusedNow() // since SYNCED: the loop may have been slow
	synced := map[string]bool{}
	for _, one := range perNamespace(sr.stream.Status()) {
		synced[one.Namespace] = one.Synced
	}
	s.mu.Lock()
	namespaces, all := s.status.Namespaces, true
	for _, n := range namespaces {
		all = all && synced[n]
		if synced[n] && !slices.Contains(refused, n) {
			delete(s.refused, n)
		}
	}
	s.last.synced = all
	s.mu.Unlock()
	if all { // else namespaces have been added since SYNCED
		s.setWatching(sr.resource, namespaces, refused)
	}
}

// setWatching sets the state of a resource that is SYNCED in these namespaces.
func (s *followed) setWatching(r gvr.Resource, namespaces, refused []string) {
	everything := slices.Equal(namespaces, s.follower.selection.scope(r))
	if everything && len(refused) == 0 && !s.follower.rights.pending(r.GroupResource()) {
		s.follower.rights.forget(r.GroupResource())
		s.setState(Watching, nil)
	} else {
		s.setState(Forbidden, nil) // in other namespaces; the cause stays
	}
}

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
	s.follower.rights.forget(r.GroupResource())
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

// rediscover finds out how a resource that has turned out to be gone is served now. With refresh the Resolver asks the
// server first.
func (s *followed) rediscover(ctx context.Context, refresh bool) {
	s.mu.Lock()
	r := s.served.resource
	s.mu.Unlock()
	if refresh {
		s.follower.resolver.Refresh()
	}
	next := s.follower.otherVersion(ctx, r)
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

// isGone reports whether a resource has not been served for a time, and whether it is idle: there is nothing to watch,
// and so nothing more will be delivered.
func (s *followed) isGone(since time.Duration) (gone, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone = !s.served.now && !s.served.unknown && s.status.State == Gone && time.Since(s.status.Since) >= since
	return gone, s.last.idle
}

func (s *followed) setIdle(idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.idle = idle
}

func (s *followed) setActive(active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.active, s.last.synced = active, false
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
		if s.follower.rights.unresolved() {
			return false
		}
		_, wanted, ok := s.wanted()
		return !run.active && !ok || run.synced && slices.Equal(wanted, namespaces)
	}
	return true
}
