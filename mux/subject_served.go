package mux

import (
	"context"
	"slices"

	"github.com/gvrwatch/gvrwatch/gvr"
)

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
	refused := s.refusedNow() // since then: the loop may have taken its time
	s.mu.Lock()
	s.told = s.running
	for _, n := range namespaces {
		if !slices.Contains(refused, n) {
			delete(s.refused, n)
		}
	}
	s.mu.Unlock()
	everything := slices.Equal(namespaces, s.follow.selection.scope(r))
	if everything && len(refused) == 0 && !s.follow.rights.pending(r.GroupResource()) {
		s.follow.rights.forget(r.GroupResource())
		s.set(FollowWatching, nil)
	} else {
		s.set(FollowForbidden, nil) // elsewhere; the cause stays
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
