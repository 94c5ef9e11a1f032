package follow

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/mux"
)

// State is that of a followed resource.
type State string

const (
	// Unserved: a name does not stand for a resource yet. Cause, if set, may be why: the name is ambiguous, its
	// resource cannot be watched, or an API that may have it cannot be read.
	Unserved State = "Unserved"
	// Starting: the resource is served, and its first SYNCED has not been delivered. StatusChanged does not receive it
	// for a resource that is new.
	Starting State = "Starting"
	// Watching: SYNCED has been delivered, and the resource is watched wherever it is wanted.
	// mux.SourceStatus describes the watch.
	Watching State = "Watching"
	// Forbidden: the resource may not be watched, or only in ResourceStatus.Namespaces. The package comment says how
	// often rights are checked.
	Forbidden State = "Forbidden"
	// Gone: the resource is no longer served, has lost the verb list or watch, or is no longer selected. Cause may be
	// nil. After five minutes it is let go, which StatusChanged does not report: its source is removed from the Mux,
	// and Status does not have it, or if Resources names it, has it as Unserved. If it is served again, its sequence
	// goes on all the same.
	Gone State = "Gone"
	// Failing: the server refuses to list or watch the resource for another reason (Cause), or nobody can: its plural
	// is no part of a path, or its name no key of a checkpoint. The next try is within five minutes.
	Failing State = "Failing"
	// Dropped: the resource is not a source of the Mux, because of Remove, mux.Options.OnError, or another source with
	// its key (Cause). It is attached again in the next run.
	Dropped State = "Dropped"
)

// ResourceStatus describes one resource that is followed, or a name that does not stand for one yet.
type ResourceStatus struct {
	// Ref is the name in Selection.Resources. It is zero if a pattern or a category selects the resource.
	Ref gvr.Ref
	// Resource is zero if State is Unserved.
	Resource gvr.Resource
	State    State
	Since    time.Time // when State began
	// Namespaces are those that are watched. None means the whole cluster.
	Namespaces []string
	// Incarnation counts how often the resource has been served: it grows when a resource is deleted and served again.
	Incarnation int
	// Cause is the error that led to State. It is nil if nothing is wrong.
	Cause error
}

// Status describes a Mux and what it follows.
type Status struct {
	mux.Status // embedded because it has all that the Status of a mux.Mux has
	// Resources are sorted by resource and name.
	Resources []ResourceStatus
	// Discovery is what keeps the Mux from knowing everything that the server serves: a *discovery.UnavailableError
	// with the APIs that cannot be read. It is nil if everything is known.
	Discovery error
}

// Status returns what the Mux is doing at this moment, in time proportional to the number of sources.
func (m *Mux) Status() Status {
	if m.follower == nil {
		return Status{} // of a zero Mux
	}
	var of *host.Group // all sources, also those that the program has added
	if m.follower.options.Into != nil {
		of = m.follower.group
	}
	st := Status{Status: m.Mux.StatusOf(friend.Access{}, of)}
	m.follower.addStatus(&st)
	return st
}

// setAvailability records whether an API answers.
func (f *follower) setAvailability(c discovery.Change) {
	if !c.IsAPI() && !c.IsServer() {
		return // it concerns a resource, whose watch has a status
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	gv := c.Resource.GroupVersion()
	if c.Type == discovery.Known {
		delete(f.found.unavailable, gv)
		return
	}
	f.found.unavailable[gv] = c.Err
	f.group.Logger.Warn("discovery failed", "api", gv.String(), "error", c.Err)
}

// err returns an UnavailableError, or nil if everything is known.
func (d discovered) err() error {
	if err := d.unavailable[schema.GroupVersion{}]; err != nil {
		return err
	}
	apis := d.apis()
	if len(apis) == 0 {
		return nil
	}
	var causes []error
	for _, gv := range apis {
		causes = append(causes, d.unavailable[gv])
	}
	return &discovery.UnavailableError{GroupVersions: apis, Err: errors.Join(causes...)}
}

// apis returns the APIs that do not answer.
func (d discovered) apis() []schema.GroupVersion {
	byText := func(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) }
	return slices.SortedFunc(maps.Keys(d.unavailable), byText)
}

// done reports whether UntilSynced is set and nothing is left to wait for.
func (f *follower) done() bool {
	f.mu.Lock()
	complete, all := f.found.complete, slices.Collect(maps.Values(f.followed))
	f.mu.Unlock()
	complete = complete && (f.custom == nil || f.custom.get().State != Starting)
	waits := func(s *followed) bool { return !s.hasSynced() && f.mux.Has(friend.Access{}, s) }
	return f.options.UntilSynced && complete && !slices.ContainsFunc(all, waits)
}

// addStatus adds what is followed.
func (f *follower) addStatus(st *Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	st.Discovery = f.found.err()
	for _, n := range f.names {
		if f.followed[n.boundTo] == nil {
			st.Resources = append(st.Resources, n.status)
		}
	}
	for _, s := range f.followed {
		one := s.get().status()
		if !f.mux.Has(friend.Access{}, s) && one.State != Gone {
			one.State = Dropped
		}
		for _, n := range f.names {
			if n.bound && n.boundTo == one.Resource.GroupResource() {
				one.Ref = n.ref
			}
		}
		st.Resources = append(st.Resources, one)
	}
	if f.custom != nil && f.followed[definitions.GroupResource()] == nil {
		if one := f.custom.get(); one.State != Watching {
			st.Resources = append(st.Resources, one)
		}
	}
	slices.SortFunc(st.Resources, func(a, b ResourceStatus) int {
		return cmp.Or(cmp.Compare(a.Resource.GroupResource().String(), b.Resource.GroupResource().String()),
			cmp.Compare(a.Ref.String(), b.Ref.String()))
	})
}
