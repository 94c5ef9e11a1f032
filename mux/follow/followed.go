package follow

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// followed is a followed resource, and its mux.Source. What is wanted of it follows from what is served, what the
// rights allow, and what is watched (wanted).
type followed struct {
	common  *common
	key     string
	changed wait.Signal // what is wanted may have changed: discovery and the rights send it to the chain

	mu      sync.Mutex      // guards known and refused; nothing is called under it that locks, waits or calls back
	known   known           // get returns a copy
	refused map[string]bool // namespaces, since they were watched last

	cursor cursor // only the chain uses it, and the follower once it has removed the source
}

// known is what is known of a followed resource.
type known struct {
	served   served   // what discovery says; the chain changes it when it finds out more (rediscover)
	watched  watched  // what the goroutines of the chain do; serve and reset forget parts of it
	reported reported // both change it, by setState
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
	ended      bool // the chain has ended in this run of the Mux, and goes on at its cursor if it begins again
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
	return &followed{
		common: c, key: c.prefixed(r.GroupResource().String()), changed: wait.NewSignal(), cursor: before.cursor,
		refused: map[string]bool{}, known: known{
			served:   served{resource: r, incarnation: before.incarnation + 1, now: true, initial: initial},
			watched:  watched{ended: before.incarnation > 0},
			reported: reported{state: Starting, since: time.Now()},
		},
	}
}

// get returns what is known at one moment.
func (s *followed) get() known {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// prefixed returns the key of the source of a resource in the Mux.
func (c *common) prefixed(resource string) string {
	if c.group.Prefix == "" {
		return resource
	}
	return c.group.Prefix + "/" + resource
}

// The Mux calls Key, Group, Status and Events.

func (s *followed) Key() string { return s.key }

func (s *followed) Group(friend.Access) *host.Group { return s.common.group }

// Status returns that of the Stream, which may be nil.
func (s *followed) Status() stream.Status { return s.get().watched.stream.Status() }

func (s *followed) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) { (&chain{s, &s.cursor}).run(ctx, yield) }
}

// Discovery calls serve, remove and complete, and reset after a run of the Mux.

// serve records that a resource is served, and how. It reports whether this is the first time in this run of the Mux.
func (s *followed) serve(r gvr.Resource, initial bool) (first bool) {
	s.mu.Lock()
	k, before := &s.known, s.known.served
	k.served = served{resource: r, incarnation: before.incarnation, now: true, initial: initial}
	if before.unknown { // so that nothing is watched
		k.served.incarnation, k.watched.namespaces = 0, nil
		k.reported = reported{state: Gone, namespaces: k.reported.namespaces}
	}
	if !before.now {
		k.served.incarnation++
	}
	w := k.watched
	s.mu.Unlock()
	switch {
	case before.now:
	case w.synced: // its watch is still open
		s.setWatching(r, w.namespaces, anyRefused(w.stream.Status()))
	default:
		s.setState(Starting, nil)
	}
	s.changed.Send()
	return before.unknown
}

// remove records that a resource is no longer served or, with a reason, is no longer to be watched.
func (s *followed) remove(reason error) {
	s.mu.Lock()
	s.known.served.now = false
	r := s.known.served.resource
	s.mu.Unlock()
	s.common.rights.forget(r.GroupResource())
	s.setState(Gone, reason)
	s.changed.Send()
}

// complete is called once everything that is served at the beginning of a run of the Mux is known.
func (s *followed) complete() {
	s.mu.Lock()
	unknown := s.known.served.unknown
	s.known.served.unknown = false
	s.mu.Unlock()
	if unknown {
		s.setState(Gone, nil)
	}
}

// reset prepares for the next run of the Mux, which discovers what is served.
func (s *followed) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.served.now, s.known.served.unknown, s.known.watched.ended = false, true, false
}

// The follower asks isGone and hasSynced.

// isGone reports whether a resource has not been served for a time, and whether it is idle: there is nothing to watch,
// and so nothing more will be delivered.
func (s *followed) isGone(since time.Duration) (gone, idle bool) {
	k := s.get()
	gone = !k.served.now && !k.served.unknown && k.reported.state == Gone && time.Since(k.reported.since) >= since
	return gone, k.watched.idle
}

// hasSynced reports whether Options.UntilSynced need not wait for the resource.
func (s *followed) hasSynced() bool {
	k := s.get()
	switch k.reported.state {
	case Starting:
		return false
	case Forbidden:
		if s.common.rights.unresolved() {
			return false
		}
		_, wanted, ok := s.wanted()
		return !k.watched.active && !ok || k.watched.synced && slices.Equal(wanted, k.watched.namespaces)
	}
	return true
}

// The goroutines of the chain call the following.

// begin begins a run of the chain. It reports whether that goes on at the cursor.
func (s *followed) begin() (goesOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := &s.known.watched; !w.ended {
		w.stream, s.refused = nil, map[string]bool{}
	}
	return s.known.watched.ended
}

func (s *followed) end(failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.watched.ended, s.known.watched.idle = failed && !s.known.served.unknown, false
}

// rest records that there is nothing to watch. If nothing is pending, no namespace may be watched any more.
func (s *followed) rest(pending bool) {
	s.mu.Lock()
	k := &s.known
	nowhere := !pending && k.served.now && k.reported.state == Forbidden
	if nowhere {
		k.watched.namespaces = nil
	}
	k.watched.idle = true
	s.mu.Unlock()
	if nowhere {
		s.setState(Forbidden, nil)
	}
}

// beginRun records that a streamRun begins. endRun follows.
func (s *followed) beginRun(st *stream.Stream, namespaces []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.watched = watched{stream: st, namespaces: namespaces, active: true, ended: s.known.watched.ended}
}

func (s *followed) endRun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.watched.active, s.known.watched.synced = false, false
}

// wanted returns what is to be watched now, and false if nothing can be.
func (s *followed) wanted() (r gvr.Resource, namespaces []string, ok bool) {
	k, rights := s.get(), s.common.rights
	r = k.served.resource
	everywhere, allowed := rights.allowed(r.GroupResource())
	switch {
	case !k.served.now, !everywhere && rights.pending(r.GroupResource()):
		return r, nil, false
	case everywhere:
		return r, s.common.selection.scope(r), true
	}
	staying := staying(k.watched.stream.Status(), allowed, rights.exists)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range staying {
		if !s.refused[n] {
			allowed = append(allowed, n)
		}
	}
	slices.Sort(allowed)
	return r, allowed, len(allowed) > 0
}

// forbidden handles a refusal to let the resource be watched in a namespace, or across the cluster.
func (s *followed) forbidden(r gvr.Resource, namespace string, err error) {
	s.setState(Forbidden, err)
	s.mu.Lock()
	s.refused[namespace] = true
	s.mu.Unlock()
	s.common.rights.deny(r, namespace, s.changed.Send)
}

// rediscover finds out how a resource that has turned out to be gone is served now. With refresh the Resolver asks the
// server first.
func (s *followed) rediscover(ctx context.Context, refresh bool) {
	was := s.get().served.resource
	if refresh {
		s.common.resolver.Refresh()
	}
	next := s.common.otherVersion(ctx, was)
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := &s.known.served; d.now && d.resource.Version == was.Version { // else discovery was first
		d.resource = next
	}
}

// move records that the run is to watch other namespaces. It reports whether they are others, and all SYNCED.
func (s *followed) move(namespaces []string) (moved, synced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.known.watched
	isNew := func(n string) bool { return !slices.Contains(w.namespaces, n) || s.refused[n] }
	more := slices.ContainsFunc(namespaces, isNew)
	if moved = more || len(namespaces) != len(w.namespaces); moved {
		w.namespaces, w.synced = namespaces, w.synced && !more
	}
	return moved, w.synced
}

// watching updates the state after SYNCED has been delivered.
func (s *followed) watching(r gvr.Resource) {
	st, all := s.Status(), true // since SYNCED: the loop may have been slow
	now := map[string]stream.Status{}
	for _, one := range perNamespace(st) {
		now[one.Namespace] = one
	}
	s.mu.Lock()
	w, namespaces := &s.known.watched, s.known.watched.namespaces
	for _, n := range namespaces {
		all = all && now[n].Synced
		if now[n].Synced && now[n].State != stream.Forbidden {
			delete(s.refused, n)
		}
	}
	w.synced = all
	s.mu.Unlock()
	if all { // else namespaces have been added since SYNCED
		s.setWatching(r, namespaces, anyRefused(st))
	}
}

// All sides report.

// setWatching sets the state of a resource that is SYNCED in these namespaces, some of them refused since.
func (s *followed) setWatching(r gvr.Resource, namespaces []string, refused bool) {
	everything := slices.Equal(namespaces, s.common.selection.scope(r))
	if everything && !refused && !s.common.rights.pending(r.GroupResource()) {
		s.common.rights.forget(r.GroupResource())
		s.setState(Watching, nil)
	} else {
		s.setState(Forbidden, nil) // in other namespaces; the cause stays
	}
}

// setState sets a state. If the state stays the same, a nil cause keeps the old cause. What is not served stays Gone,
// although its watch, which is about to end, may still deliver SYNCED or be refused.
func (s *followed) setState(state State, cause error) {
	s.mu.Lock()
	if !s.known.served.now && (state == Watching || state == Forbidden) {
		s.mu.Unlock()
		return
	}
	r, namespaces := &s.known.reported, s.known.watched.namespaces
	changed := state != r.state || !slices.Equal(namespaces, r.namespaces)
	if state != r.state {
		r.state, r.since, r.cause = state, time.Now(), cause
	} else if cause != nil {
		r.cause = cause
	}
	r.namespaces = namespaces
	now := s.known.status()
	s.mu.Unlock()
	if changed {
		s.common.report(now)
	}
}

// status returns a copy.
func (k known) status() ResourceStatus {
	return ResourceStatus{Resource: k.served.resource, State: k.reported.state, Since: k.reported.since,
		Namespaces: slices.Clone(k.watched.namespaces), Incarnation: k.served.incarnation, Cause: k.reported.cause}
}

// staying returns namespaces that are still watched although the rights no longer allow it: an open watch may go on,
// and when a namespace is deleted, the rights in it may be deleted before its objects. Such a namespace stays until its
// watch is refused, or until it is deleted and DELETED of all its objects has been delivered.
func staying(st stream.Status, allowed []string, exists func(namespace string) bool) (staying []string) {
	for _, one := range perNamespace(st) {
		n := one.Namespace
		if n != "" && !slices.Contains(allowed, n) && (one.Objects > 0 || exists(n)) {
			staying = append(staying, n)
		}
	}
	return staying
}

// anyRefused reports whether a watch is refused at this moment.
func anyRefused(st stream.Status) bool {
	return slices.ContainsFunc(perNamespace(st), func(one stream.Status) bool { return one.State == stream.Forbidden })
}

// perNamespace returns the Status of each namespace that is watched, or that of the cluster.
func perNamespace(st stream.Status) []stream.Status {
	if len(st.Namespaces) == 0 {
		return []stream.Status{st}
	}
	return st.Namespaces
}
