package mux

import (
	"fmt"
	"runtime/debug"
	"time"
)

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
