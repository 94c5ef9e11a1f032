package mux

import (
	"context"
	"errors"
	"iter"
	"runtime/debug"
	"sync"

	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

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

var errLeft = errors.New("the loop was left")

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
	var workers sync.WaitGroup
	if !m.open(inner, cancel, &workers) {
		return stream.ErrBusy
	}
	defer m.close(cancel, &workers)
	var it item
	for {
		s, next := m.next(ctx, &it)
		switch next {
		case end:
			return it.err
		case nothing:
			select {
			case <-m.wake:
			case <-ctx.Done():
			}
		case failed:
			if err := m.handleSourceError(s, it.err); err != nil {
				return err
			}
		case event:
			if !m.deliver(s, it.event, yield) {
				return nil
			}
		}
	}
}

// deliver yields an event. If the loop body panics, the event counts as discarded.
func (m *Mux) deliver(s *source, ev stream.Event, yield func(stream.Event, error) bool) bool {
	returned := false
	defer func() {
		if !returned {
			m.mu.Lock()
			defer m.mu.Unlock()
			s.discarded = true
		}
	}()
	more := yield(ev, nil)
	returned = true
	return more
}

// open begins a run. It returns false if one is active.
func (m *Mux) open(ctx context.Context, cancel context.CancelCauseFunc, workers *sync.WaitGroup) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run.cancel != nil {
		return false
	}
	m.run = runState{cancel: cancel, start: m.starter(ctx, workers)}
	m.counts = counts{unsynced: len(m.sources)}
	for _, s := range m.sources {
		s.reset()
		m.run.start(s, 0)
		m.schedule(s)
	}
	if m.control != nil {
		workers.Go(func() {
			if err := m.runControl(ctx); err != nil && ctx.Err() == nil {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.run.err = err
				m.notify()
			}
		})
	}
	return true
}

// runControl calls Mux.control.
func (m *Mux) runControl(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &stream.PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return m.control(ctx)
}

// close ends a run. No goroutine of it is left when close returns.
func (m *Mux) close(cancel context.CancelCauseFunc, workers *sync.WaitGroup) {
	m.mu.Lock()
	m.run.start = nil
	m.mu.Unlock()
	cancel(errLeft)
	workers.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sources {
		switch {
		case !s.resumes() || s.discarded || s.progress.restart:
			s.discarded = m.purge(s) || s.discarded
		case s.buffer.blocked != nil:
			m.keep(s, s.buffer.blocked)
			s.buffer.blocked = nil
		}
		s.settle(&m.waiting.holder)
		s.worker.state = stopped
	}
	m.waiting.ready, m.run = ring[*source]{}, runState{}
}

// next is what the loop does next.
type next int

const (
	nothing next = iota // it waits for Mux.wake
	event
	failed // a source
	end    // perhaps with an error
)

// next decides what the loop does. It sets the item that this is about: an event, or an end with its error.
func (m *Mux) next(ctx context.Context, it *item) (*source, next) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*it = item{}
	switch {
	case m.run.ending == stopping:
		return nil, end
	case ctx.Err() != nil:
		it.err = context.Cause(ctx)
		return nil, end
	case m.run.err != nil && m.run.ending == notEnding:
		it.err = m.run.err
		return nil, end
	}
	for {
		s := m.take(it)
		switch {
		case s == nil && m.isOver():
			*it = item{}
			return nil, end
		case s == nil:
			m.run.asleep = true
			return nil, nothing
		case it.end && it.run != s.worker.runs:
			continue // it ended in an earlier run of the Mux
		case it.end && m.sourceEnded(s, it.err):
			return s, failed
		case it.end:
			continue
		case it.event.Type == stream.Synced:
			m.setSynced(s, true)
		case it.event.Type == stream.Gap:
			m.setSynced(s, false)
		}
		return s, event
	}
}

// isOver reports whether nothing more can come. Nothing is queued.
func (m *Mux) isOver() bool {
	if m.run.ending == draining {
		return m.run.workers == 0
	}
	return m.control == nil && len(m.sources) > 0 && m.counts.ended == len(m.sources)
}

// sourceEnded records the end of a source whose events have all been delivered. It reports whether the error has to be
// handled.
func (m *Mux) sourceEnded(s *source, err error) bool {
	s.worker.state, s.failure.err = stopped, err
	if err != nil {
		m.setSynced(s, false)
		return m.run.ending == notEnding
	}
	s.progress.finished = true
	m.counts.ended++
	return false
}

func (m *Mux) setSynced(s *source, synced bool) {
	switch {
	case synced && !s.progress.synced:
		m.counts.unsynced--
	case !synced && s.progress.synced:
		m.counts.unsynced++
	}
	s.progress.synced = synced
}
