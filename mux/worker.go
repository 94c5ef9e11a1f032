package mux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// starter returns the function that starts the worker of a source. Its caller holds m.mu. The workers belong to all,
// and end when ctx does.
func (m *Mux) starter(ctx context.Context, all *sync.WaitGroup) func(*source, time.Duration) {
	return func(s *source, delay time.Duration) {
		ctx, stop := context.WithCancelCause(ctx)
		done, predecessor := make(chan struct{}), m.leaving[s.key]
		s.worker.running, s.worker.stop, s.worker.done = true, stop, done
		s.worker.runs++
		s.worker.state = receiving
		if delay > 0 {
			s.worker.state, s.failure.nextTry = backingOff, time.Now().Add(delay)
		}
		m.run.workers++
		all.Go(func() {
			defer close(done)
			defer stop(nil)
			if predecessor != nil {
				<-predecessor // it has the same key, and is ending
			}
			m.work(ctx, s, delay)
		})
	}
}

// work runs a source until it ends.
func (m *Mux) work(ctx context.Context, s *source, delay time.Duration) {
	var err error
	returned := false
	defer func() {
		if !returned {
			p := cmp.Or[any](recover(), errors.New("runtime.Goexit ended the goroutine of the source"))
			err = &stream.PanicError{Where: s.key, Value: p, Stack: debug.Stack()}
		}
		m.workerEnded(s, err, ctx.Err() != nil)
	}()
	if wait.Sleep(ctx, delay, nil) {
		err = m.receive(ctx, s)
	}
	returned = true
}

// receive buffers the events of a source.
func (m *Mux) receive(ctx context.Context, s *source) error {
	memory := int64(0) // of the event that is yielded; stays 0 if the source is no Stream
	events, resumed := m.events(ctx, s, &memory)
	if events == nil {
		return errors.New("Events returned nil: must return a sequence")
	}
	for ev, err := range events {
		if err != nil {
			var invalid *stream.OptionsError
			var gap *stream.GapError
			if resumed && errors.As(err, &invalid) || errors.As(err, &gap) { // its Position is no use
				m.mu.Lock()
				s.progress.restart = true
				m.mu.Unlock()
			}
			return err
		}
		if !m.put(ctx, s, ev, memory) {
			return nil
		}
	}
	return nil
}

// events returns the sequence of a source, and whether it resumes where it was. memory is for host.Run.
func (m *Mux) events(
	ctx context.Context, s *source, memory *int64,
) (events iter.Seq2[stream.Event, error], resumed bool) {
	m.mu.Lock()
	s.worker.state, s.worker.began, s.failure.nextTry, s.failure.err = receiving, time.Now(), time.Time{}, nil
	again := s.progress.buffered
	restart := s.progress.restart
	resume := again && !restart
	s.progress.restart = false
	m.mu.Unlock()
	src, ok := s.Source.(hosted)
	if !ok {
		return s.Events(ctx), false
	}
	o := host.Run{Again: again || restart, Lists: m.lists, Memory: memory, Holder: &m.waiting.holder}
	if src, ok := s.Source.(positioned); ok && resume {
		// The Position includes the events in the buffer.
		if p := src.Position(); len(p.ResourceVersions)+len(p.Objects) > 0 {
			from := &p
			resumed = true
			o.Start = func() *checkpoint.Position {
				defer func() { from = nil }() // it can be large
				return from
			}
		}
	}
	return src.Host(ctx, o), resumed
}

// workerEnded records the end of a worker.
func (m *Mux) workerEnded(s *source, err error, canceled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.worker.running, s.worker.ended = false, time.Now()
	m.run.workers--
	if _, panicked := errors.AsType[*stream.PanicError](err); panicked {
		s.progress.restart = true // the event that it was handling may be lost
	}
	switch {
	case s.removed:
		s.settle(nil) // not before: a run that has just begun would take it for its own
		if m.leaving[s.key] == s.worker.done {
			delete(m.leaving, s.key)
		}
	case canceled:
		s.worker.state = stopped
	default:
		m.enqueue(s, &item{end: true, err: err, run: s.worker.runs})
	}
	m.notify()
}

// handleSourceError does what OnError decides about a source that has failed. It returns the error that ends the run.
func (m *Mux) handleSourceError(s *source, err error) error {
	if !m.isCurrent(s) {
		return nil
	}
	log := m.options.Logger.With("source", s.key, "error", err)
	decision, panicked := m.callOnError(s.key, err)
	if panicked != nil {
		log.Error("source failed, and Options.OnError panicked, ending the run", "panic", panicked)
		return &SourceError{s.key, fmt.Errorf("%w, and Options.OnError: %w", err, panicked)}
	}
	switch decision {
	case Drop:
		log.Warn("source failed, dropping it")
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.sources[s.key] == s {
			m.detach(s)
		}
	case Retry:
		if delay, ok := m.retry(s); ok {
			log.Warn("source failed, retrying", "after", delay)
		}
	default:
		if !m.isCurrent(s) {
			return nil
		}
		log.Error("source failed, ending the run")
		return &SourceError{s.key, err}
	}
	return nil
}

// isCurrent reports whether the failure of a source still matters: the source has not been removed, and the run is not
// ending.
func (m *Mux) isCurrent(s *source) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !s.removed && m.run.ending == notEnding
}

// callOnError calls OnError. A panic of OnError is a *stream.PanicError.
func (m *Mux) callOnError(key string, err error) (d Decision, panicked error) {
	defer func() {
		if p := recover(); p != nil {
			panicked = &stream.PanicError{Where: key, Value: p, Stack: debug.Stack()}
		}
	}()
	return m.options.OnError(key, err), nil
}

const (
	firstDelay = time.Second
	maxDelay   = 30 * time.Second
	// healthy is how long a source has to run for its failures to be forgotten.
	healthy = time.Minute
)

// retry starts a source again, unless it has been removed or the run is ending.
func (m *Mux) retry(s *source) (delay time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.removed || m.run.start == nil {
		return 0, false
	}
	if s.worker.ended.Sub(s.worker.began) >= healthy { // the loop may receive the end much later
		s.failure.inARow = 0
	}
	s.failure.inARow++
	s.progress.again = true
	delay = wait.Between(0, wait.Doubled(s.failure.inARow, firstDelay, maxDelay))
	m.run.start(s, delay)
	return delay, true
}
