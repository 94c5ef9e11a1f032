package mux

import (
	"context"
	"errors"
	"iter"
	"runtime/debug"
	"sync"

	"github.com/gvrwatch/gvrwatch/stream"
)

// Events returns the sequence. While it is ranged over each source is watched by a
// goroutine of its own. Leaving the loop, by break, return or panic, ends them and
// waits for them; what they had told and the loop was not given is forgotten. It
// may be ranged over again, which begins each source anew, but only once at a time
// (stream.ErrBusy).
//
// A yielded error is the last thing yielded:
//
//   - the cause of ctx when ctx has ended,
//   - a *SourceError when a source has ended with an error and Options.OnError does
//     not say otherwise, after what the source told before.
//
// The sequence ends without an error by Stop, by Drain, and when all of its sources
// have ended by themselves, as Streams with an End do, and what they told has been
// yielded. Without any source it waits for Add.
func (m *Mux) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		if err := m.loop(ctx, yield); err != nil {
			yield(stream.Event{}, err)
		}
	}
}

var errLeft = errors.New("the loop was left")

// loop is one range. It returns what is to be yielded as its last.
func (m *Mux) loop(ctx context.Context, yield func(stream.Event, error) bool) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	if !m.open(inner, cancel, &all) {
		return stream.ErrBusy
	}
	defer m.close(cancel, &all)
	for {
		s, it, what := m.next(ctx)
		switch what {
		case over:
			return it.err
		case nothing:
			select {
			case <-m.wake:
			case <-ctx.Done():
			}
		case failure:
			if err := m.decide(s, it.err); err != nil {
				return err
			}
		case event:
			if !yield(it.event, nil) {
				return nil
			}
		}
	}
}

// open begins a range, if none runs.
func (m *Mux) open(ctx context.Context, cancel context.CancelCauseFunc, all *sync.WaitGroup) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cancel != nil {
		return false
	}
	m.cancel, m.begin = cancel, m.starter(ctx, all)
	m.unsynced, m.over, m.ending, m.fault = len(m.sources), 0, going, nil
	for _, s := range m.sources {
		s.renew()
		m.begin(s, 0)
	}
	if m.run != nil {
		all.Go(func() {
			if err := m.control(ctx); err != nil && ctx.Err() == nil {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.fault = err
				m.notify()
			}
		})
	}
	return true
}

// control calls run.
func (m *Mux) control(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return m.run(ctx)
}

// close ends a range. No goroutine is left when it returns.
func (m *Mux) close(cancel context.CancelCauseFunc, all *sync.WaitGroup) {
	m.mu.Lock()
	m.begin = nil
	m.mu.Unlock()
	cancel(errLeft)
	all.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sources {
		m.purge(s)
		s.state = stopped
	}
	m.ready, m.sleeps = ring[*source]{}, false
	m.cancel = nil
}

// what the loop is to do next.
type what int

const (
	nothing what = iota // until it is woken
	event
	failure // of a source
	over    // perhaps with an error
)

// next says what is to be done next.
func (m *Mux) next(ctx context.Context) (*source, item, what) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.ending == stopping:
		return nil, item{}, over
	case ctx.Err() != nil:
		return nil, item{err: context.Cause(ctx)}, over
	case m.fault != nil && m.ending == going:
		return nil, item{err: m.fault}, over
	}
	for {
		s, it, ok := m.take()
		switch {
		case !ok && m.isOver():
			return nil, item{}, over
		case !ok:
			m.sleeps = true
			return nil, item{}, nothing
		case it.end && m.ended(s, it.err):
			return s, it, failure
		case it.end:
			continue
		case it.event.Type == stream.Synced:
			m.setSynced(s, true)
		case it.event.Type == stream.Gap:
			m.setSynced(s, false)
		}
		return s, it, event
	}
}

// isOver says whether nothing more can come. Nothing is queued.
func (m *Mux) isOver() bool {
	if m.ending == draining {
		return m.running == 0
	}
	return m.run == nil && len(m.sources) > 0 && m.over == len(m.sources)
}

// ended notes how a source has ended, now that all it told has been yielded, and
// says whether something is to be decided.
func (m *Mux) ended(s *source, err error) bool {
	s.state, s.err = stopped, err
	if err != nil {
		m.setSynced(s, false)
		return m.ending == going
	}
	s.over = true
	m.over++
	return false
}

func (m *Mux) setSynced(s *source, synced bool) {
	switch {
	case synced && !s.synced:
		m.unsynced--
	case !synced && s.synced:
		m.unsynced++
	}
	s.synced = synced
}
