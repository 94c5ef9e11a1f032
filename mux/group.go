package mux

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

// grouped is a Source that a follower has added. Group never changes.
type grouped interface {
	Group(friend.Access) *host.Group
}

// group is a follower of a Mux: its sources, and the function that adds and removes them during each run.
// sourceSet.mu guards all but the first field.
type group struct {
	*host.Group // embedded because a group is one in a Mux

	trackers map[*checkpoint.Tracker]bool // that its sources use
	started  bool                         // StartSources was called in the active run
	stop     context.CancelCauseFunc      // ends the function; nil if it does not run
	done     chan struct{}                // closed when it has ended
}

// AddGroup adds a follower, for package follow. Its function runs beside each run of the Mux, from now on if one is
// active. Such a run goes on when all sources have ended; an error of the function ends it. AddGroup returns a
// *stream.OptionsError if the prefix is that of another group, or the key of a source.
func (m *Mux) AddGroup(_ friend.Access, added *host.Group) error {
	if !m.made() {
		return errNotMade
	}
	m.sources.mu.Lock()
	defer m.sources.mu.Unlock()
	if m.sources.groups[added.Prefix] != nil || m.sources.byKey[added.Prefix] != nil {
		return invalid.New("Prefix", added.Prefix,
			"must differ from those of the other followers of the Mux, and from the keys of its sources")
	}
	added.Lists, added.Logger = m.lists, m.options.Logger
	if added.Prefix != "" {
		added.Logger = added.Logger.With("follower", added.Prefix)
	}
	g := &group{Group: added, trackers: map[*checkpoint.Tracker]bool{}}
	m.sources.groups[g.Prefix] = g
	if m.active != nil && m.active.start != nil {
		m.active.startGroup(g)
	}
	return nil
}

// Claim reports whether the sources of a group may use t, for package follow: a Tracker serves one cluster, and the
// keys of its checkpoints have no prefix.
func (m *Mux) Claim(_ friend.Access, by *host.Group, t *checkpoint.Tracker) bool {
	m.sources.mu.Lock()
	defer m.sources.mu.Unlock()
	for _, g := range m.sources.groups {
		if g.Group != by && g.trackers[t] {
			return false
		}
	}
	if g := m.sources.groupOf(by); g != nil {
		g.trackers[t] = true
	}
	return true
}

// StartSources starts the sources that a group has added since the run began, for package follow. Later ones start when
// they are added. So the first ones start together: none of them is synced while another one is still to be added.
func (m *Mux) StartSources(_ friend.Access, of *host.Group) {
	m.sources.mu.Lock()
	defer m.sources.mu.Unlock()
	g := m.sources.groupOf(of)
	if g == nil || m.active == nil || m.active.start == nil {
		return
	}
	g.started = true
	for _, s := range m.sources.byKey {
		if s.group == of && s.held {
			m.active.startAdded(s)
		}
	}
}

// startAdded starts a source that was added during the run, or holds it until its group starts. Its caller holds
// sourceSet.mu.
func (r *activeRun) startAdded(s *source) {
	g := r.sources.groupOf(s.group)
	if s.held = g != nil && !g.started; s.held {
		s.worker.state = stream.Listing // is about to
		return
	}
	r.start(s, 0)
}

// DrainIfDone drains the active run if all followers are done, for package follow.
func (m *Mux) DrainIfDone(friend.Access) {
	m.sources.mu.Lock()
	all := slices.Collect(maps.Values(m.sources.groups)) // asked without the lock
	m.sources.mu.Unlock()
	if !slices.ContainsFunc(all, func(g *group) bool { return !g.Done() }) {
		m.Drain()
	}
}

// groupOf returns the group that was added as g, or nil if it has been removed, or g is nil. Its caller holds mu.
func (all *sourceSet) groupOf(g *host.Group) *group {
	if g == nil {
		return nil
	}
	if found := all.groups[g.Prefix]; found != nil && found.Group == g {
		return found
	}
	return nil
}

// detachGroup takes a group and its sources out. It returns the channels that are closed when they have ended. Its
// caller holds mu.
func (all *sourceSet) detachGroup(g *group) (ended []<-chan struct{}) {
	delete(all.groups, g.Prefix)
	if g.stop != nil {
		g.stop(errStopped)
		ended = append(ended, g.done)
	}
	for _, s := range all.byKey {
		if s.group != g.Group {
			continue
		}
		if done := all.detach(s); done != nil {
			ended = append(ended, done)
		}
	}
	return ended
}

// left records that a group and its sources have ended.
func (all *sourceSet) left(prefix string, gone chan struct{}) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.leaving[prefix] == gone { // else a group that came later is leaving
		delete(all.leaving, prefix)
	}
	close(gone)
}

// launch runs the function of a group until ctx ends. Its caller holds sourceSet.mu.
func (r *activeRun) launch(ctx context.Context, g *group) {
	ctx, stop := context.WithCancelCause(ctx)
	done, predecessor := make(chan struct{}), r.sources.leaving[g.Prefix]
	g.started, g.stop, g.done = false, stop, done
	r.workers.Go(func() {
		if predecessor != nil {
			<-predecessor // it has the same prefix, and is ending
		}
		g.run(ctx, func(err error) {
			r.sources.mu.Lock()
			defer r.sources.mu.Unlock()
			if err != nil && ctx.Err() == nil {
				r.err = cmp.Or(r.err, err)
				r.sources.backlog.notify()
			}
			stop(nil)
			g.stop = nil
			close(done)
		})
	})
}

// run calls the function, and then end with its error. A panic is one, and so is the end of the goroutine.
func (g *group) run(ctx context.Context, end func(error)) {
	var err error
	returned := false
	defer func() {
		if !returned {
			p := cmp.Or[any](recover(), errors.New("runtime.Goexit ended the goroutine of the follower"))
			err = &stream.PanicError{Where: g.Prefix, Value: p, Stack: debug.Stack()}
		}
		end(err)
	}()
	err = g.Run(ctx)
	returned = true
}

// PrefixOf returns follow.Options.Prefix of the follower whose source an event is from. Where each cluster has one, it
// says of which cluster the event is, and Event.Resource of which resource. It is empty for other events, also if the
// Mux of the follower is itself a source of the Mux that has delivered the event.
func PrefixOf(ev stream.Event) string {
	e := ev.Envelope(friend.Access{})
	return e.Source[:e.Prefix]
}
