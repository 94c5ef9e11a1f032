package mux

import (
	"context"
	"slices"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// nowhere reports that a resource may be watched in no namespace any more.
func (s *subject) nowhere() {
	s.mu.Lock()
	nowhere := s.served && s.status.State == FollowForbidden
	if nowhere {
		s.status.Namespaces = nil
	}
	s.mu.Unlock()
	if nowhere {
		s.set(FollowForbidden, nil)
	}
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

// move makes a leg watch in other namespaces. Those that stay are not touched.
func (s *subject) move(l *leg, namespaces []string) {
	s.mu.Lock()
	was := s.status.Namespaces
	isNew := func(n string) bool { return !slices.Contains(was, n) || s.refused[n] }
	more := slices.ContainsFunc(namespaces, isNew)
	if !more && len(namespaces) == len(was) {
		s.mu.Unlock()
		return
	}
	s.status.Namespaces = namespaces
	report := s.told && !more
	s.told = report
	s.mu.Unlock()
	l.namespaces.Set(namespaces)
	if report {
		s.set(FollowForbidden, nil)
		s.follow.checkSynced()
	}
}

// watching says that SYNCED has been delivered.
func (s *subject) watching(l *leg) {
	refused := s.refusedNow() // since then: the loop may have taken its time
	synced := map[string]bool{}
	for _, one := range each(l.stream.Status()) {
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
	s.told = s.running && all
	s.mu.Unlock()
	if all { // else more namespaces have come since then
		s.report(l.resource, namespaces, refused)
	}
}

// each returns the Status of each namespace that is watched, or that of the cluster.
func each(st stream.Status) []stream.Status {
	if len(st.Namespaces) == 0 {
		return []stream.Status{st}
	}
	return st.Namespaces
}

// report says where a resource is watched now that everything has been delivered.
func (s *subject) report(r gvr.Resource, namespaces, refused []string) {
	everything := slices.Equal(namespaces, s.follow.selection.scope(r))
	if everything && len(refused) == 0 && !s.follow.rights.pending(r.GroupResource()) {
		s.follow.rights.forget(r.GroupResource())
		s.set(FollowWatching, nil)
	} else {
		s.set(FollowForbidden, nil) // in other namespaces; the cause stays
	}
}

func (s *subject) isServed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
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
		s.report(r, namespaces, s.refusedNow())
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
		s.follow.resolver.Refresh()
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
	s.served, s.over, s.failed = false, true, false
}

func (s *subject) runs(running bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.told = running, false
}

// isSettled says whether nothing is to be waited for before the first SYNCED.
func (s *subject) isSettled() bool {
	s.mu.Lock()
	running, told, state, r, namespaces := s.running, s.told, s.status.State, s.resource, s.status.Namespaces
	s.mu.Unlock()
	switch state {
	case FollowStarting:
		return false
	case FollowForbidden:
		if s.follow.rights.unsure(r.GroupResource()) {
			return false
		}
		_, wanted, ok := s.wants()
		return !running && !ok || told && slices.Equal(wanted, namespaces)
	}
	return true
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
	s.mu.Lock()
	defer s.mu.Unlock()
	var staying []string
	for _, one := range each(st) {
		n := one.Namespace
		if n != "" && !s.refused[n] && !slices.Contains(allowed, n) && (one.Objects > 0 || s.follow.rights.exists(n)) {
			staying = append(staying, n)
		}
	}
	return staying
}

// refusedNow are the namespaces, or the cluster (""), whose watches are refused at
// this moment.
func (s *subject) refusedNow() []string {
	var refused []string
	for _, one := range each(s.Status()) {
		if one.State == stream.Forbidden {
			refused = append(refused, one.Namespace)
		}
	}
	return refused
}
