package mux

import (
	"slices"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

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

// refusedNow are the namespaces, or the cluster (""), whose watches are refused at
// this moment.
func (s *subject) refusedNow() []string {
	st := s.Status()
	all := st.Namespaces
	if len(all) == 0 {
		all = []stream.Status{st}
	}
	var refused []string
	for _, one := range all {
		if one.State == stream.Forbidden {
			refused = append(refused, one.Namespace)
		}
	}
	return refused
}
