package mux

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Mux merges sources into one sequence. Its methods may be called from any goroutine, and from the loop body.
type Mux struct {
	options Options
	lists   *host.Lists                 // of all sources, in all runs
	control func(context.Context) error // runs beside each run, for package follow; nil for other Muxes
	wake    wait.Signal                 // wakes the loop

	mu      sync.Mutex
	sources map[string]*source
	leaving map[string]<-chan struct{} // closed when a source that was removed has ended
	counts  counts
	run     runState
	waiting backlog
}

// counts are numbers of sources.
type counts struct {
	unsynced int
	ended    int // without an error
}

// runState is the run over Events, if there is one.
type runState struct {
	cancel  context.CancelCauseFunc      // nil if there is none
	start   func(*source, time.Duration) // starts a source after a delay; nil if there is no run, or it ends
	workers int                          // goroutines of sources
	ending  ending
	err     error // of Mux.control
	asleep  bool  // the loop waits for Mux.wake
}

// backlog is what waits for the loop.
type backlog struct {
	ready ring[*source] // sources with a queue, in the order of their turns; the queue may have been purged since
	bytes int64         // of the sources that block
	// holder holds what waits between two runs.
	holder host.Holder
}

var errStopped = errors.New("stopped")

// ending says how a run ends.
type ending int

const (
	notEnding ending = iota
	draining
	stopping
)

// New returns a Mux of sources. It starts nothing. It returns a *stream.OptionsError, as [Mux.Add] does. opts may be
// nil, and is copied.
func New(opts *Options, sources ...Source) (*Mux, error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	m := &Mux{
		options: o, lists: host.NewLists(o.ConcurrentSnapshots), wake: wait.NewSignal(),
		sources: map[string]*source{}, leaving: map[string]<-chan struct{}{},
	}
	for _, s := range sources {
		if err := m.Add(s, nil); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Control runs a function beside each run of the Mux, for package follow. Such a run goes on when all sources have
// ended; an error of the function ends it. Control returns the bound on snapshots that are read at once.
func (m *Mux) Control(_ friend.Access, control func(context.Context) error) *host.Lists {
	m.control = control
	return m.lists
}

var errNotMade = invalid.New("Mux", "", "must be made with New")

// made reports whether m is from New. It is not if it is zero, or part of a zero Mux of package follow.
func (m *Mux) made() bool { return m != nil && m.sources != nil }

// Add adds a source. It starts at once if a run is active and not ending, else with the next run. Add returns a
// *stream.OptionsError if s is nil, has an invalid Run, has no key, or has the key of another source. opts may be nil,
// and is copied.
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
	added := &source{Source: s, key: cmp.Or(o.Key, s.Key()), options: o}
	if w, ok := s.(watched); ok {
		if _, added.run, err = w.Watched(friend.Access{}); err != nil {
			return err
		}
	}
	if added.key == "" {
		return invalid.New("Key", "", "must not be empty: give the Source a Key, or set SourceOptions.Key")
	}
	added.reset()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sources[added.key] != nil {
		return invalid.New("Key", added.key,
			"must differ from those of the other sources: remove the other source first, or set SourceOptions.Key")
	}
	m.sources[added.key] = added
	m.counts.unsynced++
	if m.run.start != nil {
		m.run.start(added, 0)
	}
	return nil
}

// Remove ends a source, waits until it has ended, and discards its events that wait: none is delivered after Remove has
// returned, except one that the loop is receiving at that moment. It returns false if there is no such source.
//
// The key can be added again, and the source begins again then, even if it resumes; if another goroutine still waits in
// Remove, the new source starts when the old one has ended. Functions that the source itself calls (Select of a Stream,
// for example) must not call Remove for its key, which would wait for them.
func (m *Mux) Remove(key string) bool {
	if !m.made() {
		return false
	}
	m.mu.Lock()
	s := m.sources[key]
	var done <-chan struct{}
	if s == nil {
		done = m.leaving[key] // another goroutine removes it
	} else {
		done = m.detach(s)
	}
	m.mu.Unlock()
	if done != nil {
		<-done
	}
	return s != nil
}

// detach takes a source out of the Mux. It returns a channel that is closed when the source has ended, or nil if it
// has. The caller holds m.mu.
func (m *Mux) detach(s *source) <-chan struct{} {
	delete(m.sources, s.key)
	s.removed = true
	if !s.progress.synced {
		m.counts.unsynced--
	}
	if s.progress.finished {
		m.counts.ended--
	}
	m.purge(s)
	s.discarded = true // even if nothing waited: whoever adds the source again begins again
	m.notify()         // the run may have nothing left to wait for
	if !s.worker.running {
		s.settle(nil)
		return nil
	}
	m.leaving[s.key] = s.worker.done
	s.worker.stop(errStopped)
	return s.worker.done
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
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run.cancel == nil || m.run.ending >= how {
		return
	}
	m.run.ending, m.run.start = how, nil
	if how == draining {
		for _, s := range m.sources {
			m.admit(s, true)
		}
	}
	m.run.cancel(errStopped)
	m.notify()
}

// Synced returns Status.AllSynced, and whether all sources deliver everything that exists, for packages of this module.
func (m *Mux) Synced(friend.Access) (all, whole bool) {
	whole = true
	if !m.made() {
		return false, whole
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sources {
		whole = whole && s.run.Start == stream.Start{} && s.run.Checkpoint == nil
	}
	return m.allSynced(), whole
}

func (m *Mux) allSynced() bool { return len(m.sources) > 0 && m.counts.unsynced == 0 }

// Has reports whether s is a source, under its own key, for package follow.
func (m *Mux) Has(_ friend.Access, s Source) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.sources[s.Key()]
	return found != nil && found.Source == s
}

// RemoveIdle is for package follow. It removes s and waits until it has ended, but only if none of its events
// waits for the loop. It reports whether it has removed s, which has to be a source under its own key.
func (m *Mux) RemoveIdle(_ friend.Access, s Source) bool {
	m.mu.Lock()
	found := m.sources[s.Key()]
	if found == nil || found.Source != s || found.buffer.load().events > 0 { // then nothing is blocked either
		m.mu.Unlock()
		return false
	}
	done := m.detach(found)
	m.mu.Unlock()
	if done != nil {
		<-done
	}
	return true
}
