package mux

import (
	"context"
	"iter"
	"slices"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Mux merges sources into one sequence. Its methods may be called from any goroutine, and from the loop body.
type Mux struct {
	// What a Mux holds reaches only downwards: a run reaches the sources, and a worker its door only.

	options Options
	lists   *host.Lists // of all sources, in all runs
	sources *sourceSet
	active  *activeRun // the run over Events, nil if there is none; sourceSet.mu guards it
}

// New returns a Mux of sources. It starts nothing. It returns a *stream.OptionsError, as [Mux.Add] does. opts may be
// nil, and is copied.
func New(opts *Options, sources ...Source) (*Mux, error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	m := &Mux{options: o, lists: host.NewLists(o.ConcurrentSnapshots), sources: &sourceSet{
		byKey: map[string]*source{}, groups: map[string]*group{}, leaving: map[string]<-chan struct{}{},
		backlog: backlog{most: o.BufferBytes, wake: wait.NewSignal()},
	}}
	for _, s := range sources {
		if err := m.Add(s, nil); err != nil {
			return nil, err
		}
	}
	return m, nil
}

var errNotMade = invalid.New("Mux", "", "must be made with New")

// made reports whether m is from New. It is not if it is zero, or part of a zero Mux of package follow.
func (m *Mux) made() bool { return m != nil && m.sources != nil }

// Add adds a source. It starts at once if a run is active and not ending, else with the next run. Add returns a
// *stream.OptionsError if s is nil, has an invalid Run, has no key or that of another source, or includes m, or
// a Mux that another source includes or is: one Mux has one loop. opts may be nil, and is copied.
func (m *Mux) Add(s Source, opts *SourceOptions) error {
	if !m.made() {
		return errNotMade
	}
	if s == nil {
		return invalid.New("Source", "", "must not be nil")
	}
	o, err := opts.check(m.options)
	if err != nil {
		return err
	}
	added, err := newSource(s, o)
	switch {
	case err != nil:
		return err
	case added.merges != nil && added.merges.includes(m):
		return invalid.New("Source", added.key, "must not include the Mux that it is added to")
	case added.merges != nil && m.shares(added.merges):
		return invalid.New("Source", added.key, "must not have a Mux in common with another source")
	}
	m.sources.mu.Lock()
	defer m.sources.mu.Unlock()
	if err := m.sources.add(added); err != nil {
		return err
	}
	if m.active != nil && m.active.start != nil {
		m.active.startAdded(added)
	}
	return nil
}

// Remove ends a source, waits until it has ended, and discards its events that wait: none is delivered after Remove has
// returned, except one that the loop is receiving at that moment. It returns false if there is no such source. With the
// prefix of a follower (follow.Options.Into) it does so with the follower and all its sources.
//
// The key can be added again, and the source begins again then, even if it resumes; if another goroutine still waits in
// Remove, the new source starts when the old one has ended. Functions that the source itself calls (Select of a Stream,
// for example) must not call Remove for its key, which would wait for them.
func (m *Mux) Remove(key string) bool {
	if !m.made() {
		return false
	}
	m.sources.mu.Lock()
	s, g := m.sources.byKey[key], m.sources.groups[key]
	var ended []<-chan struct{}
	switch {
	case s != nil:
		ended = append(ended, m.sources.detach(s))
	case g != nil && key != "":
		gone := make(chan struct{})
		m.sources.leaving[key], ended = gone, m.sources.detachGroup(g)
		defer m.sources.left(key, gone)
	default:
		ended = append(ended, m.sources.leaving[key]) // another goroutine may be removing it
	}
	m.sources.mu.Unlock()
	for _, done := range ended {
		if done != nil {
			<-done
		}
	}
	return s != nil || g != nil && key != ""
}

// Events returns the sequence. During a run over it each source has a goroutine. Leaving the loop, by break, return or
// panic, ends the sources, waits for them, and discards the events that wait (see [Mux.Stop]). There may be many runs,
// one at a time (stream.ErrBusy); each begins a new run of every source.
//
// A yielded error is the last value:
//
//   - the cause of ctx when ctx has ended,
//   - a *SourceError when a source has failed and Options.OnError is nil, returns Fail or panics, after the events of
//     that source.
//
// The sequence ends without an error after Stop or Drain. It also does so once every source has ended without an error
// (as Streams with UntilSynced or UntilClosed do) and all events have been delivered. Without any source it waits for
// Add.
func (m *Mux) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		if err := m.loop(ctx, yield); err != nil {
			yield(stream.Event{}, err)
		}
	}
}

// loop is one run. It returns the error to yield.
func (m *Mux) loop(ctx context.Context, yield func(stream.Event, error) bool) error {
	switch {
	case !m.made():
		return errNotMade
	case ctx == nil:
		return invalid.New("ctx", "", "must not be nil")
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &activeRun{options: m.options, lists: m.lists, sources: m.sources, cancel: cancel}
	if !m.open(inner, r) {
		return stream.ErrBusy
	}
	defer m.close(r)
	return r.loop(ctx, yield)
}

// open begins a run. It returns false if one is active.
func (m *Mux) open(ctx context.Context, r *activeRun) bool {
	m.sources.mu.Lock()
	defer m.sources.mu.Unlock()
	if m.active != nil {
		return false
	}
	m.active = r
	r.begin(ctx)
	return true
}

// close ends a run. No goroutine of it is left when close returns.
func (m *Mux) close(r *activeRun) {
	r.wait()
	m.sources.mu.Lock()
	defer m.sources.mu.Unlock()
	m.sources.settle()
	m.active = nil
}

// Stop ends the active run, if there is one: the loop ends without an error as soon as its body returns. Events that
// wait are discarded; those of a source that resumes ([stream.Resume]) come first in the next run. Stop does not wait,
// so the body may call it.
func (m *Mux) Stop() { m.end(stopping) }

// Drain ends the sources of the active run, if there is one. The loop receives the events that wait and then ends
// without an error, even if a source has failed. Drain does not wait, so the body may call it.
func (m *Mux) Drain() { m.end(draining) }

func (m *Mux) end(how ending) {
	if !m.made() {
		return
	}
	m.sources.mu.Lock()
	defer m.sources.mu.Unlock()
	if m.active != nil {
		m.active.end(how)
	}
}

// Synced returns Status.AllSynced, and whether all sources deliver everything that exists, for packages of this module.
func (m *Mux) Synced(friend.Access) (all, whole bool) {
	if !m.made() {
		return false, true
	}
	var merges []merging // asked without the lock
	m.sources.mu.Lock()
	all, whole = len(m.sources.byKey) > 0, true
	for _, s := range m.sources.byKey {
		all = all && s.isSynced()
		whole = whole && s.run.Start == stream.Start{} && s.run.Checkpoint == nil
		if s.merges != nil {
			merges = append(merges, s.merges)
		}
	}
	m.sources.mu.Unlock()
	for _, s := range merges {
		itsAll, itsWhole := s.Synced(friend.Access{})
		all, whole = all && itsAll, whole && itsWhole
	}
	return all, whole
}

// includes reports whether other is m, or a source of a source of m.
func (m *Mux) includes(other *Mux) bool {
	if !m.made() || m == other {
		return m == other
	}
	return slices.ContainsFunc(m.merges(), func(s merging) bool { return s.includes(other) })
}

// shares reports whether s is a source of m, or of a source of m, or the other way round.
func (m *Mux) shares(s merging) bool {
	return slices.ContainsFunc(m.merges(), func(other merging) bool {
		return other.includes(s.itself()) || s.includes(other.itself())
	})
}

// itself is for those that embed m.
func (m *Mux) itself() *Mux { return m }

// merges returns the sources that have sources of their own.
func (m *Mux) merges() (all []merging) {
	m.sources.mu.Lock()
	defer m.sources.mu.Unlock()
	for _, s := range m.sources.byKey {
		if s.merges != nil {
			all = append(all, s.merges)
		}
	}
	return all
}

// Has reports whether s is a source, under its own key, for package follow.
func (m *Mux) Has(_ friend.Access, s Source) bool {
	m.sources.mu.Lock()
	defer m.sources.mu.Unlock()
	return m.sources.find(s) != nil
}

// RemoveIdle is for package follow. It removes s and waits until it has ended, but only if none of its events
// waits for the loop. It reports whether it has removed s, which has to be a source under its own key.
func (m *Mux) RemoveIdle(_ friend.Access, s Source) bool {
	var done <-chan struct{}
	m.sources.mu.Lock()
	found := m.sources.find(s)
	idle := found != nil && found.buffer.load().events == 0 // then nothing is blocked either
	if idle {
		done = m.sources.detach(found)
	}
	m.sources.mu.Unlock()
	if done != nil {
		<-done
	}
	return idle
}
