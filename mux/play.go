package mux

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/run"
	"github.com/gvrwatch/gvrwatch/stream"
)

// starter returns what starts the goroutine of a source, with m.mu held. The
// goroutines are among all, and end when ctx does.
func (m *Mux) starter(ctx context.Context, all *sync.WaitGroup) func(*source, time.Duration) {
	return func(s *source, wait time.Duration) {
		ctx, stop := context.WithCancelCause(ctx)
		done, predecessor := make(chan struct{}), m.leaving[s.key]
		s.live, s.stop, s.done = true, stop, done
		s.state = telling
		if wait > 0 {
			s.state, s.next = pausing, time.Now().Add(wait)
		}
		m.running++
		all.Go(func() {
			defer close(done)
			defer stop(nil)
			if predecessor != nil {
				<-predecessor // it has been told to end, and has the same key
			}
			m.play(ctx, s, wait)
		})
	}
}

var errGoexit = errors.New("its goroutine was ended (runtime.Goexit)")

// play lets a source tell until it ends.
func (m *Mux) play(ctx context.Context, s *source, wait time.Duration) {
	var err error
	returned := false
	defer func() {
		if !returned {
			p := recover()
			if p == nil {
				p = errGoexit
			}
			err = &PanicError{Key: s.key, Value: p, Stack: debug.Stack()}
		}
		m.left(s, err, ctx.Err() == nil)
	}()
	if pause(ctx, wait, nil) {
		err = m.tell(ctx, s)
	}
	returned = true
}

// pause waits for some time, or for news, and says whether ctx goes on.
func pause(ctx context.Context, d time.Duration, news <-chan struct{}) bool {
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-news:
		return true
	case <-ctx.Done():
		return false
	}
}

func (m *Mux) tell(ctx context.Context, s *source) error {
	resumed := false
	events := func() iter.Seq2[stream.Event, error] {
		m.mu.Lock()
		s.state, s.began, s.next, s.err = telling, time.Now(), time.Time{}, nil
		goOn := s.told && !s.anew
		s.anew = false
		m.mu.Unlock()
		src, ok := s.Source.(resumable)
		eventsWith := withOptions(s.Source)
		if !ok || eventsWith == nil {
			return s.Events(ctx)
		}
		o := run.Options{Lists: m.lists}
		if goOn {
			// What is queued has been told, as far as its Position is concerned.
			if p := src.Position(); len(p.ResourceVersions)+len(p.Objects) > 0 {
				resumed = true
				from := &p
				o.Start = func() *checkpoint.Position {
					defer func() { from = nil }() // it may be large
					return from
				}
			}
		}
		return eventsWith(ctx, o)
	}
	for ev, err := range events() {
		if err != nil {
			var bad *stream.OptionsError
			var gap *stream.GapError
			if resumed && errors.As(err, &bad) || errors.As(err, &gap) { // it can't begin there
				m.mu.Lock()
				s.anew = true
				m.mu.Unlock()
			}
			return err
		}
		if !m.put(ctx, s, ev) {
			return nil
		}
	}
	return nil
}

// left notes that the goroutine of a source ends, by itself or not.
func (m *Mux) left(s *source, err error, byItself bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.live, s.left = false, time.Now()
	m.running--
	var panicked *PanicError
	if errors.As(err, &panicked) {
		s.anew = true // it is not known what became of what it had at hand
	}
	switch {
	case s.removed:
		if m.leaving[s.key] == s.done {
			delete(m.leaving, s.key)
		}
	case byItself:
		m.queue(s, item{end: true, err: err})
	default:
		s.state = stopped
	}
	m.notify()
}

// decide does what OnError says of a source that has failed. An error it returns
// ends the sequence.
func (m *Mux) decide(s *source, err error) error {
	if !m.concerns(s) {
		return nil
	}
	log := m.options.Logger.With("source", s.key, "error", err)
	switch m.ask(s.key, err) {
	case Drop:
		log.Warn("a source has failed, and is dropped")
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.sources[s.key] == s {
			m.forget(s)
		}
	case Retry:
		if wait, ok := m.retry(s); ok {
			log.Warn("a source has failed, and is tried again", "after", wait)
		}
	default:
		if !m.concerns(s) {
			return nil
		}
		log.Error("a source has failed, which ends the sequence")
		return &SourceError{s.key, err}
	}
	return nil
}

// concerns says whether the failure of a source is still of interest: it has not
// been removed meanwhile, and the range is not about to end.
func (m *Mux) concerns(s *source) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !s.removed && m.ending == going
}

// ask calls OnError.
func (m *Mux) ask(key string, err error) (d Decision) {
	defer func() {
		if p := recover(); p != nil {
			m.options.Logger.Error("Options.OnError panicked, so that the source is dropped",
				"source", key, "error", err, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			d = Drop
		}
	}()
	return m.options.OnError(key, err)
}

// retry begins a source again, unless it has been removed or the range ends.
func (m *Mux) retry(s *source) (wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.removed || m.begin == nil {
		return 0, false
	}
	if s.left.Sub(s.began) >= healthy { // the loop may have come to it much later
		s.failed = 0
	}
	s.failed++
	wait = backoff(s.failed)
	m.begin(s, wait)
	return wait, true
}

const (
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// healthy is how long a source must tell for its failures to be forgotten.
	healthy = time.Minute
)

// backoff is the wait before attempt n, 1 being the first repetition: a random time
// up to a bound that doubles ("full jitter"), so that sources that failed together
// do not come back together.
func backoff(n int) time.Duration {
	most := min(firstBackoff<<min(max(n-1, 0), 10), maxBackoff)
	return rand.N(most + 1)
}
