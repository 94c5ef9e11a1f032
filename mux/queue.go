package mux

import (
	"context"

	"github.com/gvrwatch/gvrwatch/stream"
)

// item is what waits in a queue: an event, or the end of its source.
type item struct {
	event stream.Event
	size  int64
	end   bool
	err   error // of the end
}

// queue holds what a source has told and the loop has not been given.
type queue interface {
	push(item)
	fits(*stream.Event) bool // it may be pushed, as far as the queue itself is concerned
	pop() item               // there is one
	load() load
}

// load is how much waits.
type load struct {
	items, events int   // the end of a source is an item, and no event
	bytes         int64 // of the events
}

// add counts an item that came (1) or went (-1).
func (l *load) add(it *item, sign int) {
	l.items += sign
	l.bytes += int64(sign) * it.size
	if !it.end {
		l.events += sign
	}
}

// ring is first in, first out.
type ring[T any] struct {
	items    []T // its capacity is used round and round
	first, n int
}

func (r *ring[T]) push(one T) {
	if r.n == len(r.items) {
		more := make([]T, max(4, 2*r.n))
		n := copy(more, r.items[r.first:])
		copy(more[n:], r.items[:r.first])
		r.items, r.first = more, 0
	}
	r.items[(r.first+r.n)%len(r.items)] = one
	r.n++
}

func (r *ring[T]) pop() T {
	var none T
	one := r.items[r.first]
	r.items[r.first] = none // what has been told need not be kept
	r.first = (r.first + 1) % len(r.items)
	r.n--
	return one
}

// blockQueue is a queue that keeps everything.
type blockQueue struct {
	ring[item]
	waiting load
}

func (q *blockQueue) push(it item) {
	q.ring.push(it)
	q.waiting.add(&it, 1)
}

func (q *blockQueue) pop() item {
	it := q.ring.pop()
	q.waiting.add(&it, -1)
	return it
}

func (q *blockQueue) fits(*stream.Event) bool { return true }
func (q *blockQueue) load() load              { return q.waiting }

// controlSize is what an event without an object counts for, and the rest of one
// that has an object.
const controlSize = 100

// sizeOf is how many bytes an event would take as JSON, more or less.
func sizeOf(ev *stream.Event) int64 {
	size := int64(controlSize)
	if ev.Object != nil {
		size += jsonSize(ev.Object.Object)
	}
	return size
}

// jsonSize is how many bytes v, as client-go decodes objects, would take as JSON, more or
// less: strings are taken as they are, without what would be escaped. In memory it
// takes several times that.
func jsonSize(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v)) + 2
	case map[string]any:
		size := int64(2)
		for k, v := range v {
			size += int64(len(k)) + 4 + jsonSize(v)
		}
		return size
	case []any:
		size := int64(2)
		for _, v := range v {
			size += 1 + jsonSize(v)
		}
		return size
	}
	return 5 // a number, true, false or null
}

// put queues what a source tells, waiting for room if it blocks, and says whether
// the source may go on.
func (m *Mux) put(ctx context.Context, s *source, ev stream.Event) bool {
	ev.Source = s.key
	it := item{event: ev, size: sizeOf(&ev)}
	m.mu.Lock()
	if ctx.Err() != nil { // removed, or the range ends
		m.mu.Unlock()
		return false
	}
	s.told = true
	if m.fits(s, it, s.options.Events) {
		m.queue(s, it)
		m.mu.Unlock()
		return true
	}
	parked := it // only this one is to be allocated
	s.parked = &parked
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

// fits says whether something of a source may be queued where, if it blocks, fewer
// than most of its events wait. m.mu is held, as by all that follows.
func (m *Mux) fits(s *source, it item, most int) bool {
	waiting := s.queue.load().items
	if waiting == 0 || s.options.Overflow == Latest {
		return waiting == 0 || s.queue.fits(&it.event)
	}
	return waiting < most && m.bytes+it.size <= m.options.Bytes
}

// queue lets it be told when it is its turn.
func (m *Mux) queue(s *source, it item) {
	if s.options.Overflow == Block {
		m.bytes += it.size
	}
	s.queue.push(it)
	m.enqueue(s)
	m.notify()
}

// enqueue gives a source a turn, if something of it waits.
func (m *Mux) enqueue(s *source) {
	if !s.waits && s.queue.load().items > 0 {
		s.waits = true
		m.ready.push(s)
	}
}

// take returns what is told next, if anything is queued.
func (m *Mux) take() (*source, item, bool) {
	for m.ready.n > 0 {
		s := m.ready.pop()
		s.waits = false
		if s.queue.load().items == 0 {
			continue // it has been purged, or all of it has vanished
		}
		it := s.queue.pop()
		if s.options.Overflow == Block {
			m.bytes -= it.size
		}
		m.admit(s, false)
		m.enqueue(s)
		return s, it, true
	}
	return nil, item{}, false
}

// admit queues what a source waits with, if there is room for it or in any case.
// There has to be room for half as much as there can be, so that not every event
// costs a switch of goroutines. What does not fit yet is tried again when the source
// has had a turn.
func (m *Mux) admit(s *source, anyway bool) {
	if s.parked == nil || !anyway && !m.fits(s, *s.parked, s.options.Events/2+1) {
		return
	}
	it := *s.parked
	s.parked = nil
	m.queue(s, it)
	s.room <- struct{}{}
}

// purge forgets what is queued of a source, and what it waits with.
func (m *Mux) purge(s *source) {
	if s.options.Overflow == Block {
		m.bytes -= s.queue.load().bytes
	}
	s.parked = nil
	s.queue = &blockQueue{}
}

// notify makes the loop look again.
func (m *Mux) notify() {
	if m.sleeps {
		m.sleeps = false
		signal(m.wake)
	}
}
