package mux

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// FollowState says how it stands with what is followed.
type FollowState string

const (
	// FollowUnserved: what was named is not served yet, or it is not known whether it
	// is (Cause).
	FollowUnserved FollowState = "Unserved"
	// FollowStarting: it is served, and its first SYNCED has not been told.
	FollowStarting FollowState = "Starting"
	// FollowWatching: everything that is wanted of it has been told, and is watched. How
	// the watch is doing, SourceStatus says.
	FollowWatching FollowState = "Watching"
	// FollowForbidden: it may not be watched, or only in some namespaces
	// (Followed.Namespaces). It is asked again every few seconds.
	FollowForbidden FollowState = "Forbidden"
	// FollowGone: it is no longer served, or no longer to be watched (Cause).
	FollowGone FollowState = "Gone"
	// FollowFailing: the server refuses for some other reason (Cause). It is tried
	// again, after five minutes at most.
	FollowFailing FollowState = "Failing"
	// FollowDropped: it is no source of the Mux any more, by Remove or by
	// Options.OnError. It is attached again when the Mux is ranged over again.
	FollowDropped FollowState = "Dropped"
)

// Followed is what is known of something that is followed.
type Followed struct {
	// Ref is what was named. It is zero for what a pattern or a category has selected.
	Ref gvr.Ref
	// Resource is zero where State is Unserved.
	Resource gvr.Resource
	State    FollowState
	Since    time.Time // when State began
	// Namespaces it is watched in. None stands for the cluster.
	Namespaces []string
	// Incarnation counts how often it has been served: more than one says that it was
	// removed and added again.
	Incarnation int
	// Cause is why, where something is wrong.
	Cause error
}

// set reports a state. A cause of nil leaves that of the same state as it was.
func (s *subject) set(state FollowState, cause error) {
	s.mu.Lock()
	old := s.status
	if state != old.State {
		s.status.State, s.status.Since, s.status.Cause = state, time.Now(), cause
	} else if cause != nil {
		s.status.Cause = cause
	}
	now := s.status
	now.Namespaces = slices.Clone(now.Namespaces)
	news := now.State != old.State || !slices.Equal(now.Namespaces, s.shown)
	s.shown = now.Namespaces
	s.mu.Unlock()
	if news {
		s.follow.options.statusChanged(now)
	}
}

// heard keeps what is not known of what is served.
func (f *follow) heard(c discovery.Change) {
	if !c.IsAPI() && !c.IsServer() {
		return // its own watch says how it is doing
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Type == discovery.Known {
		delete(f.down, c.Resource.GroupVersion())
		return
	}
	f.down[c.Resource.GroupVersion()] = c.Err
	if f.options.Mux.Logger != nil {
		f.options.Mux.Logger.Warn("it is not known what is served", "api", c.Resource.GroupVersion().String(), "error", c.Err)
	}
}

// checkSynced ends the sequence if that is wanted and nothing is to be waited for.
func (f *follow) checkSynced() {
	if !f.options.UntilSynced {
		return
	}
	f.mu.Lock()
	looked, subjects := f.looked, slices.Collect(maps.Values(f.subjects))
	f.mu.Unlock()
	if looked && !slices.ContainsFunc(subjects, func(s *subject) bool { return !s.isSettled() && f.mux.has(s) }) {
		f.mux.Drain()
	}
}

// status adds what is followed to that of the Mux.
func (f *follow) status(st *Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, gv := range slices.SortedFunc(maps.Keys(f.down), func(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) }) {
		err := f.down[gv]
		if !gv.Empty() {
			err = fmt.Errorf("%s: %w", gv, err)
		}
		st.Discovery = errors.Join(st.Discovery, err)
	}
	for _, n := range f.named {
		if !n.bound {
			st.Followed = append(st.Followed, n.status)
		}
	}
	for _, s := range f.subjects {
		one := s.followed()
		if !f.mux.has(s) && one.State != FollowGone {
			one.State = FollowDropped
		}
		for _, n := range f.named {
			if n.bound && n.of == one.Resource.GroupResource() {
				one.Ref = n.ref
			}
		}
		st.Followed = append(st.Followed, one)
	}
	slices.SortFunc(st.Followed, func(a, b Followed) int {
		return cmp.Or(cmp.Compare(a.Resource.GroupResource().String(), b.Resource.GroupResource().String()), cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
}
