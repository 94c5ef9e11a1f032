package mux

import (
	"context"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/stream"
)

// put buffers an event of a source, and waits for room if it does not fit. It returns false if the worker has to end.
// memory is how much the Object takes, or 0 if that is unknown.
func (m *Mux) put(ctx context.Context, s *source, ev stream.Event, memory int64) bool {
	it := item{event: ev, size: sizeOf(&ev, memory)}
	it.event.Envelope(friend.Access{}).Source = s.key
	m.mu.Lock()
	if ctx.Err() != nil { // the source has been removed, or the run is ending
		m.keep(s, &it)
		m.mu.Unlock()
		return false
	}
	s.progress.buffered = true
	if m.fits(s, &it, s.options.BufferEvents) {
		m.enqueue(s, &it)
		m.mu.Unlock()
		return true
	}
	blocked := it // allocates, which the common case must not
	s.buffer.blocked = &blocked
	m.mu.Unlock()
	select {
	case <-s.buffer.room:
		return true
	case <-ctx.Done():
		return false // whatever has canceled ctx has admitted the item, or purges it
	}
}

// The caller of the following methods holds m.mu.

// fits reports whether an item may be queued. If the queue of the source is empty, it always may. Otherwise a source
// without Latest needs fewer than most items in its queue, and room for the item within Options.BufferBytes.
func (m *Mux) fits(s *source, it *item, most int) bool {
	waiting := s.buffer.load().items
	if waiting == 0 || s.options.Overflow == Latest {
		return waiting == 0 || s.buffer.fits(it.event.Type, it.event.Namespace)
	}
	return waiting < most && m.waiting.bytes+it.size <= m.options.BufferBytes
}

// enqueue adds an item to the queue of a source.
func (m *Mux) enqueue(s *source, it *item) {
	if s.options.Overflow == Block {
		m.waiting.bytes += it.size
	}
	s.buffer.push(*it)
	m.schedule(s)
	m.notify()
}

// schedule gives a source a turn, if its queue is not empty.
func (m *Mux) schedule(s *source) {
	if !s.buffer.scheduled && s.buffer.load().items > 0 {
		s.buffer.scheduled = true
		m.waiting.ready.push(s)
	}
}

// take moves the next item to a place. It returns nil if there is none, else the item's source.
func (m *Mux) take(it *item) *source {
	for m.waiting.ready.n > 0 {
		var s *source
		m.waiting.ready.pop(&s)
		s.buffer.scheduled = false
		if s.buffer.load().items == 0 {
			continue // the queue has been purged, or its events have canceled out
		}
		s.buffer.pop(it)
		if s.options.Overflow == Block {
			m.waiting.bytes -= it.size
		}
		m.admit(s, false)
		m.schedule(s)
		return s
	}
	return nil
}

// admit queues the blocked item of a source if half of the queue is free, so that not every event costs a switch of
// goroutines, or in any case with force. It is called after each turn of the source.
func (m *Mux) admit(s *source, force bool) {
	if s.buffer.blocked == nil || !force && !m.fits(s, s.buffer.blocked, s.options.BufferEvents/2+1) {
		return
	}
	m.enqueue(s, s.buffer.blocked)
	s.buffer.blocked = nil
	s.buffer.room <- struct{}{}
}

// keep queues an item for the next run, although this one ends, if the source resumes then. SYNCED is not kept: the
// next run delivers another one.
func (m *Mux) keep(s *source, it *item) {
	switch {
	case !s.resumes() || s.removed:
		s.discarded = true
	case it.event.Type != stream.Synced:
		m.enqueue(s, it)
	}
}

// purge discards the queue of a source and its blocked item. It reports whether there was an event.
func (m *Mux) purge(s *source) bool {
	events := s.buffer.load().events > 0 || s.buffer.blocked != nil
	if s.options.Overflow == Block {
		m.waiting.bytes -= s.buffer.load().bytes
	}
	s.buffer.blocked = nil
	s.buffer.queue = &blockQueue{}
	return events
}

// notify wakes the loop.
func (m *Mux) notify() {
	if m.run.asleep {
		m.run.asleep = false
		m.wake.Send()
	}
}
