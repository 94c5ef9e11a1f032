package mux

import (
	"context"

	"github.com/gvrwatch/gvrwatch/stream"
)

// put queues what a source tells, waiting for room if it blocks, and says whether
// the source may go on.
func (m *Mux) put(ctx context.Context, s *source, ev stream.Event) bool {
	ev.Source = s.key
	it := item{event: ev, size: sizeOf(&ev)}
	m.mu.Lock()
	switch {
	case ctx.Err() != nil: // removed, or the range ends
		m.mu.Unlock()
		return false
	case m.fits(s, it.size):
		s.told = true
		m.queue(s, it)
		m.mu.Unlock()
		return true
	}
	s.told = true
	s.parked = &item{event: it.event, size: it.size}
	m.mu.Unlock()
	select {
	case <-s.room:
		return true
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.parked == nil && !s.removed {
		<-s.room // it was admitted meanwhile
	}
	s.parked = nil
	return false
}

// fits says whether something of a source may be queued. m.mu is held, as by all
// that follows.
func (m *Mux) fits(s *source, size int64) bool {
	waiting := s.queue.len()
	return waiting == 0 || s.options.Overflow == Latest || waiting < s.options.Events && m.bytes+size <= m.options.Bytes
}

// queue lets it be told when it is its turn.
func (m *Mux) queue(s *source, it item) {
	if s.options.Overflow == Block {
		m.bytes += it.size
	}
	s.queue.push(it)
	if !s.waits && s.queue.len() > 0 {
		m.ready.push(s)
	}
	m.notify()
}

// take returns what is told next, if anything is queued.
func (m *Mux) take() (*source, item, bool) {
	for m.ready.n > 0 {
		s := m.ready.pop()
		if s.queue.len() == 0 {
			continue // it has been purged, or merged away
		}
		it := s.queue.pop()
		if s.options.Overflow == Block {
			m.bytes -= it.size
		}
		m.admit(s, false)
		if s.queue.len() > 0 && !s.waits {
			m.ready.push(s)
		}
		return s, it, true
	}
	return nil, item{}, false
}

// admit queues what a source waits with, if there is room for it or in any case.
// There has to be room for half as much as there can be, so that not every event
// costs a switch of goroutines.
func (m *Mux) admit(s *source, anyway bool) {
	if s.parked == nil {
		return
	}
	waiting := s.queue.len()
	switch {
	case waiting == 0 || anyway:
	case waiting > s.options.Events/2 || m.bytes+s.parked.size > m.options.Bytes:
		return // it is asked again when it has had a turn, at the latest when nothing of it waits
	}
	it := *s.parked
	s.parked = nil
	m.queue(s, it)
	s.room <- struct{}{}
}

// purge forgets what is queued of a source, and what it waits with.
func (m *Mux) purge(s *source) {
	if s.options.Overflow == Block {
		m.bytes -= s.queue.bytes()
	}
	s.parked = nil
	s.queue = &ring{}
}

// notify makes the loop look again.
func (m *Mux) notify() {
	if m.sleeps {
		m.sleeps = false
		select {
		case m.wake <- struct{}{}:
		default: // it has been told already, and woke by something else
		}
	}
}
