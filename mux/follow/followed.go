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

// followed is a followed resource, and its mux.Source. What is wanted of it follows from what is served, what the
// rights allow, and what is watched (wanted). Its parts are guarded one by one: whoever changes reported may read the
// others meanwhile, and whoever changes watched may read served.
type followed struct {
	common  *common
	key     string
	changed wait.Signal // what is wanted may have changed: discovery and the rights send it to the sequence

	served   guarded[served]   // discovery changes it
	watched  guarded[watched]  // the goroutines of the sequence change it
	reported guarded[reported] // both change it, by setState

	cursor cursor // only the sequence uses it, and the follower once it has removed the source
}

// guarded is a value that several goroutines use.
type guarded[T any] struct {
	mu    sync.Mutex
	value T
}

func (g *guarded[T]) get() T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.value
}

func (g *guarded[T]) change(f func(*T)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(&g.value)
}

// served is how a resource is served.
type served struct {
	resource    gvr.Resource // in the version that is served, or was last
	incarnation int
	now         bool
	initial     bool // was served when the run of the Mux began
	unknown     bool // discovery has not reported it since the last run of the Mux
}

// watched is the active streamRun of a resource, or else the last one.
type watched struct {
	stream     *stream.Stream // nil before the first
	namespaces []string       // none for the cluster; never changed in place
	active     bool
	synced     bool // the run is active and has delivered SYNCED
	idle       bool // there is nothing to watch
	ended      bool // the sequence has ended in this run of the Mux, and goes on at its cursor if it begins again

	refused map[string]bool // namespaces, since they were watched last; only change may read it
}

// reported is what has been reported of a resource. Its State is no stream.State because it says whether there is a
// Stream to have one, and why not.
type reported struct {
	state      State
	since      time.Time
	cause      error
	namespaces []string
}

// newFollowed returns the source of a resource. before is zero unless the resource was followed before in this run of
// the Mux.
func newFollowed(c *common, r gvr.Resource, initial bool, before kept) *followed {
	s := &followed{common: c, key: r.GroupResource().String(), changed: wait.NewSignal(), cursor: before.cursor}
	s.served.value = served{resource: r, incarnation: before.incarnation + 1, now: true, initial: initial}
	s.watched.value = watched{refused: map[string]bool{}, ended: before.incarnation > 0}
	s.reported.value = reported{state: Starting, since: time.Now()}
	return s
}

// The Mux calls Key, Status and Events.

func (s *followed) Key() string { return s.key }

// Status returns that of the Stream.
func (s *followed) Status() stream.Status {
	if st := s.watched.get().stream; st != nil {
		return st.Status()
	}
	return stream.Status{State: stream.Idle}
}

func (s *followed) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) { (&sequence{s, &s.cursor}).run(ctx, yield) }
}

// Discovery calls serve, remove and complete, and reset after a run of the Mux.

// serve records that a resource is served, and how. It reports whether this is the first time in this run of the Mux.
func (s *followed) serve(r gvr.Resource, initial bool) (first bool) {
	if s.served.get().unknown { // so that nothing is watched
		s.watched.change(func(w *watched) { w.namespaces = nil })
	}
	var again bool
	s.served.change(func(d *served) { again, first = d.serve(r, initial) })
	if first {
		s.reported.change(func(r *reported) { r.state, r.since, r.cause = Gone, time.Time{}, nil })
	}
	switch w := s.watched.get(); {
	case again && w.synced: // its watch is still open
		s.setWatching(r, w.namespaces, s.refusedNow())
	case again:
		s.setState(Starting, nil)
	}
	s.changed.Send()
	return first
}

// serve reports whether the resource was not served before, and whether discovery reports it for the first time.
func (d *served) serve(r gvr.Resource, initial bool) (again, first bool) {
	again, first = !d.now, d.unknown
	if first {
		d.incarnation = 0
	}
	if again {
		d.incarnation++
	}
	d.resource, d.now, d.initial, d.unknown = r, true, initial, false
	return again, first
}

// remove records that a resource is no longer served or, with a reason, is no longer to be watched.
func (s *followed) remove(reason error) {
	s.served.change(func(d *served) { d.now = false })
	s.common.rights.forget(s.served.get().resource.GroupResource())
	s.setState(Gone, reason)
	s.changed.Send()
}

// complete is called once everything that is served at the beginning of a run of the Mux is known.
func (s *followed) complete() {
	var unknown bool
	s.served.change(func(d *served) { unknown, d.unknown = d.unknown, false })
	if unknown {
		s.setState(Gone, nil)
	}
}

// reset prepares for the next run of the Mux, which discovers what is served.
func (s *followed) reset() {
	s.served.change(func(d *served) { d.now, d.unknown = false, true })
	s.watched.change(func(w *watched) { w.ended = false })
}

// The follower asks getStatus, isGone and hasSynced.

func (s *followed) getStatus() ResourceStatus { return s.describe(s.reported.get()) }

// describe returns a copy of what is served and watched, with a state.
func (s *followed) describe(r reported) ResourceStatus {
	d := s.served.get()
	return ResourceStatus{Resource: d.resource, State: r.state, Since: r.since, Incarnation: d.incarnation,
		Namespaces: slices.Clone(s.watched.get().namespaces), Cause: r.cause}
}

// isGone reports whether a resource has not been served for a time, and whether it is idle: there is nothing to watch,
// and so nothing more will be delivered.
func (s *followed) isGone(since time.Duration) (gone, idle bool) {
	d, r := s.served.get(), s.reported.get()
	gone = !d.now && !d.unknown && r.state == Gone && time.Since(r.since) >= since
	return gone, s.watched.get().idle
}

// hasSynced reports whether Options.UntilSynced need not wait for the resource.
func (s *followed) hasSynced() bool {
	state, run := s.reported.get().state, s.watched.get()
	switch state {
	case Starting:
		return false
	case Forbidden:
		if s.common.rights.unresolved() {
			return false
		}
		_, wanted, ok := s.wanted()
		return !run.active && !ok || run.synced && slices.Equal(wanted, run.namespaces)
	}
	return true
}

// The goroutines of the sequence call wanted, forbidden, rediscover, move and watching.

// wanted returns what is to be watched now, and false if nothing can be.
func (s *followed) wanted() (r gvr.Resource, namespaces []string, ok bool) {
	d, rights := s.served.get(), s.common.rights
	if !d.now {
		return d.resource, nil, false
	}
	everywhere, allowed := rights.allowed(d.resource.GroupResource())
	if everywhere {
		return d.resource, s.common.selection.scope(d.resource), true
	}
	if rights.pending(d.resource.GroupResource()) {
		return d.resource, nil, false
	}
	allowed = append(allowed, s.staying(allowed)...)
	slices.Sort(allowed)
	return d.resource, allowed, len(allowed) > 0
}

// staying returns namespaces that are still watched although the rights no longer allow it: an open watch may go on,
// and when a namespace is deleted, the rights in it may be deleted before its objects. Such a namespace stays until its
// watch is refused, or until it is deleted and DELETED of all its objects has been delivered.
func (s *followed) staying(allowed []string) (staying []string) {
	st := s.Status()
	s.watched.change(func(w *watched) {
		for _, one := range perNamespace(st) {
			n := one.Namespace
			if n != "" && !w.refused[n] && !slices.Contains(allowed, n) &&
				(one.Objects > 0 || s.common.rights.exists(n)) {
				staying = append(staying, n)
			}
		}
	})
	return staying
}

// forbidden handles a refusal to let the resource be watched in a namespace, or across the cluster.
func (s *followed) forbidden(r gvr.Resource, namespace string, err error) {
	s.setState(Forbidden, err)
	s.watched.change(func(w *watched) { w.refused[namespace] = true })
	s.common.rights.deny(r, namespace, s.changed.Send)
}

// rediscover finds out how a resource that has turned out to be gone is served now. With refresh the Resolver asks the
// server first.
func (s *followed) rediscover(ctx context.Context, refresh bool) {
	was := s.served.get().resource
	if refresh {
		s.common.resolver.Refresh()
	}
	next := s.common.otherVersion(ctx, was)
	s.served.change(func(d *served) {
		if d.now && d.resource.Version == was.Version { // discovery has reported nothing else meanwhile
			d.resource = next
		}
	})
}

// move records that the run is to watch other namespaces. It reports whether they are others, and all SYNCED.
func (s *followed) move(namespaces []string) (moved, synced bool) {
	s.watched.change(func(w *watched) {
		isNew := func(n string) bool { return !slices.Contains(w.namespaces, n) || w.refused[n] }
		more := slices.ContainsFunc(namespaces, isNew)
		if moved = more || len(namespaces) != len(w.namespaces); moved {
			w.namespaces, w.synced = namespaces, w.synced && !more
		}
		synced = w.synced
	})
	return moved, synced
}

// watching updates the state after SYNCED has been delivered.
func (s *followed) watching(r gvr.Resource) {
	refused := s.refusedNow() // since SYNCED: the loop may have been slow
	synced := map[string]bool{}
	for _, one := range perNamespace(s.Status()) {
		synced[one.Namespace] = one.Synced
	}
	var namespaces []string
	all := true
	s.watched.change(func(w *watched) {
		namespaces = w.namespaces
		for _, n := range namespaces {
			all = all && synced[n]
			if synced[n] && !slices.Contains(refused, n) {
				delete(w.refused, n)
			}
		}
		w.synced = all
	})
	if all { // else namespaces have been added since SYNCED
		s.setWatching(r, namespaces, refused)
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

// All sides report.

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
	var now ResourceStatus
	changed := false
	s.reported.change(func(r *reported) {
		if changed = state != r.state; changed {
			r.state, r.since, r.cause = state, time.Now(), cause
		} else if cause != nil {
			r.cause = cause
		}
		now = s.describe(*r)
		changed = changed || !slices.Equal(now.Namespaces, r.namespaces)
		r.namespaces = now.Namespaces
	})
	if changed {
		s.common.report(now)
	}
}
