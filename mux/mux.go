package mux

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/run"
)

// Mux merges sources into one sequence. Its methods may be called from any
// goroutine, and from the loop body.
type Mux struct {
	options Options
	lists   *run.Lists    // of all sources, in all ranges
	wake    chan struct{} // the loop is to look again; of capacity one

	// run, if not nil, runs for as long as a range does, and may add and remove
	// sources: a range with it does not end because they have. An error of it ends the
	// range.
	run func(ctx context.Context) error
	// status, if not nil, may add to what Status returns.
	status func(*Status)

	mu       sync.Mutex
	sources  map[string]*source
	leaving  map[string]<-chan struct{} // closed when one that was removed has ended
	unsynced int                        // of sources
	over     int                        // sources that have ended by themselves

	// Of the range that runs.
	cancel  context.CancelCauseFunc      // nil if none does
	begin   func(*source, time.Duration) // starts telling after a while; nil if none runs, or it ends
	running int                          // goroutines of sources
	ending  ending
	fault   error         // of run
	sleeps  bool          // the loop waits for wake
	ready   ring[*source] // have something queued, in the order of their turns; or have been purged
	bytes   int64         // that wait of those that block
}

var errStopped = errors.New("stopped")

// ending says how a range is to end.
type ending int

const (
	going ending = iota
	draining
	stopping
)

// New returns a Mux of sources, and does nothing yet. It returns what Add does, and
// an *OptionsError. opts may be nil, and is copied.
func New(opts *Options, sources ...Source) (*Mux, error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	m := &Mux{
		options: o, lists: run.NewLists(o.Lists),
		wake: make(chan struct{}, 1), sources: map[string]*source{}, leaving: map[string]<-chan struct{}{},
	}
	for _, s := range sources {
		if err := m.Add(s, nil); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Add adds a source. While a range runs it begins at once, unless the range is
// about to end, and else with the next one. It returns a *DuplicateKeyError, an
// *OptionsError, ErrNoSource or ErrNoKey. opts may be nil, and is copied.
func (m *Mux) Add(s Source, opts *SourceOptions) error {
	if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return ErrNoSource
	}
	o, err := opts.check(m.options)
	if err != nil {
		return err
	}
	added := &source{Source: s, key: cmp.Or(o.Key, s.Key()), options: o}
	if added.key == "" {
		return ErrNoKey
	}
	added.renew()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sources[added.key] != nil {
		return &DuplicateKeyError{added.key}
	}
	m.sources[added.key] = added
	m.unsynced++
	if m.begin != nil {
		m.begin(added, 0)
	}
	return nil
}

// Remove ends a source and waits until it has ended. What it has told and the loop
// has not been given is forgotten: nothing of it comes once Remove has returned,
// but for an event that the loop is being given at that moment. It returns false
// if there is no such source. Its key can be added again; where another goroutine
// is still waiting in Remove, the new source begins when the old one has ended.
// Remove must not be called by what the source itself calls (a Stream's Select,
// say): it would wait for itself.
func (m *Mux) Remove(key string) bool {
	m.mu.Lock()
	s := m.sources[key]
	var done <-chan struct{}
	if s == nil {
		done = m.leaving[key] // another one is removing it
	} else {
		done = m.forget(s)
	}
	m.mu.Unlock()
	if done != nil {
		<-done
	}
	return s != nil
}

// forget makes a source none of the Mux, and returns what is closed when it has
// ended, if it has not. m.mu is held.
func (m *Mux) forget(s *source) <-chan struct{} {
	delete(m.sources, s.key)
	s.removed = true
	if !s.synced {
		m.unsynced--
	}
	if s.over {
		m.over--
	}
	m.purge(s)
	m.notify() // there may be nothing left to wait for
	if !s.live {
		return nil
	}
	m.leaving[s.key] = s.done
	s.stop(errStopped)
	return s.done
}

// Stop ends the range that is running, if there is one, at once: the loop ends as
// soon as its body returns, without an error, and what waits is not told. It does
// not wait for that, so the body may call it. Before a range has begun there is
// nothing to stop.
func (m *Mux) Stop() { m.end(stopping) }

// Drain ends the sources of the range that is running, if there is one. The loop
// is still given what waits, and then ends without an error: also where what waits
// is that a source has failed. It does not wait for that, so the body may call it.
func (m *Mux) Drain() { m.end(draining) }

func (m *Mux) end(how ending) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cancel == nil || m.ending >= how {
		return
	}
	m.ending, m.begin = how, nil
	if how == draining {
		for _, s := range m.sources {
			m.admit(s, true)
		}
	}
	m.cancel(errStopped)
	m.notify()
}

// AllSynced says whether every source has told SYNCED in this range (or the last
// one), and no GAP since: what the loop was told, not what waits. It is true in
// the loop body that is given the last SYNCED, and false without sources.
func (m *Mux) AllSynced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.sources) > 0 && m.unsynced == 0
}

// has says whether s is a source.
func (m *Mux) has(s Source) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.sources[s.Key()]
	return of != nil && of.Source == s
}
