package mux

import (
	"github.com/gvrwatch/gvrwatch/internal/size"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// backlog is what waits for the loop, and the loop's wait for it. The callers of its methods, and of those of a buffer,
// hold sourceSet.mu.
type backlog struct {
	ready  ring[*source] // sources with a queue, in the order of their turns; the queue may have been purged since
	bytes  int64         // of the sources that block
	most   int64         // Options.BufferBytes
	wake   wait.Signal   // wakes the loop
	asleep bool          // the loop waits for wake
}

// put queues an item, or reports that it does not fit. Then the worker waits until the source's room receives.
func (b *backlog) put(s *source, it *item) bool {
	if b.fits(s, it, s.options.BufferEvents) {
		b.enqueue(s, it)
		return true
	}
	blocked := *it // allocates, which the common case must not
	s.buffer.blocked = &blocked
	return false
}

// fits reports whether an item may be queued. If the queue of the source is empty, it always may. Otherwise a source
// without Latest needs fewer than most items in its queue, and room for the item within Options.BufferBytes.
func (b *backlog) fits(s *source, it *item, most int) bool {
	waiting := s.buffer.load().items
	if waiting == 0 || s.options.Overflow == Latest {
		return waiting == 0 || s.buffer.fits(it.event.Type, it.event.Namespace)
	}
	return waiting < most && b.bytes+it.size <= b.most
}

// enqueue adds an item to the queue of a source.
func (b *backlog) enqueue(s *source, it *item) {
	if s.options.Overflow == Block {
		b.bytes += it.size
	}
	s.buffer.push(*it)
	b.schedule(s)
	b.notify()
}

// schedule gives a source a turn, if its queue is not empty.
func (b *backlog) schedule(s *source) {
	if !s.buffer.scheduled && s.buffer.load().items > 0 {
		s.buffer.scheduled = true
		b.ready.push(s)
	}
}

// take moves the next item to it, and returns its source. If there is none, it returns nil, and expects the loop
// to wait.
func (b *backlog) take(it *item) *source {
	for b.ready.n > 0 {
		var s *source
		b.ready.pop(&s)
		s.buffer.scheduled = false
		if s.buffer.load().items == 0 {
			continue // the queue has been purged, or its events have canceled out
		}
		s.buffer.pop(it)
		if s.options.Overflow == Block {
			b.bytes -= it.size
		}
		b.admit(s, false)
		b.schedule(s)
		return s
	}
	b.asleep = true
	return nil
}

// admit queues the blocked item of a source if half of the queue is free, so that not every event costs a switch of
// goroutines, or in any case with force. It is called after each turn of the source.
func (b *backlog) admit(s *source, force bool) {
	if s.buffer.blocked == nil || !force && !b.fits(s, s.buffer.blocked, s.options.BufferEvents/2+1) {
		return
	}
	b.enqueue(s, s.buffer.blocked)
	s.buffer.blocked = nil
	s.buffer.room <- struct{}{}
}

// keep queues an item, perhaps the blocked one, for the next run, although this one ends, if the source resumes then.
// SYNCED is not kept: the next run delivers another one.
func (b *backlog) keep(s *source, it *item) {
	s.buffer.blocked = nil
	switch {
	case !s.resumes() || s.removed:
		s.discarded = true
	case it.event.Type != stream.Synced:
		b.enqueue(s, it)
	}
}

// purge discards the queue of a source and its blocked item. It reports whether there was an event.
func (b *backlog) purge(s *source) bool {
	events := s.buffer.load().events > 0 || s.buffer.blocked != nil
	if s.options.Overflow == Block {
		b.bytes -= s.buffer.load().bytes
	}
	s.buffer.blocked = nil
	s.buffer.queue = &blockQueue{}
	return events
}

// notify wakes the loop.
func (b *backlog) notify() {
	if b.asleep {
		b.asleep = false
		b.wake.Send()
	}
}

// buffer holds the events of a source that wait for the loop. Only its methods, its queue and the backlog change it.
type buffer struct {
	queue                   // embedded because a buffer is used as one
	latest    coalescing    // shared with a latestQueue
	scheduled bool          // the source is in backlog.ready
	blocked   *item         // does not fit into the queue; the worker waits
	room      chan struct{} // receives when what was blocked has been queued; of capacity one
}

// reset prepares for a run. With keep, what waits stays.
func (b *buffer) reset(o Overflow, keep bool) {
	before := *b
	*b = buffer{queue: &blockQueue{}, room: make(chan struct{}, 1)}
	switch {
	case keep && before.queue != nil && before.load().items > 0:
		b.queue, b.latest.again = before.queue, before.latest.again
	case o == Latest:
		b.queue = newLatestQueue(&b.latest)
	}
}

// restart is called before the source is started again in a run.
func (b *buffer) restart() { b.latest.again = true }

// item is an event, or the end of its source.
type item struct {
	event stream.Event
	size  int64
	end   bool
	err   error // of the end
	run   int   // of the end: lastWorker.number
}

// queue holds the events of a source that wait for the loop. An item is pushed by value: through an interface, a
// pointer would make the item of each event escape to the heap.
type queue interface {
	push(item)
	fits(t stream.Type, namespace string) bool // the queue itself has room for such an event
	pop(*item)                                 // moves the first item; must not be called on an empty queue
	load() load
}

// load is how much waits.
type load struct {
	items, events int   // the end of a source counts as an item only
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

// ring is a first-in, first-out queue.
type ring[T any] struct {
	items    []T // of constant length until it is full
	first, n int
}

func (r *ring[T]) push(one T) {
	if r.n == len(r.items) {
		more := make([]T, max(4, 2*r.n))
		n := copy(more, r.items[r.first:])
		copy(more[n:], r.items[:r.first])
		r.items, r.first = more, 0
	}
	last := r.first + r.n
	if last >= len(r.items) {
		last -= len(r.items)
	}
	r.items[last] = one
	r.n++
}

// pop moves the first item to to. The ring must not be empty.
func (r *ring[T]) pop(to *T) {
	var none T
	*to = r.items[r.first]
	r.items[r.first] = none // release it
	if r.first++; r.first == len(r.items) {
		r.first = 0
	}
	r.n--
}

// blockQueue keeps everything.
type blockQueue struct {
	ring    ring[item]
	waiting load
	synced  bool // SYNCED was popped since the ring was made
}

func (q *blockQueue) push(it item) {
	q.waiting.add(&it, 1)
	q.ring.push(it)
}

func (q *blockQueue) pop(to *item) {
	q.ring.pop(to)
	q.waiting.add(to, -1)
	q.synced = q.synced || to.event.Type == stream.Synced
	if q.synced && q.ring.n == 0 {
		q.ring, q.synced = ring[item]{}, false // it has room for much of a snapshot
	}
}

func (q *blockQueue) fits(stream.Type, string) bool { return true }
func (q *blockQueue) load() load                    { return q.waiting }

// controlSize is the size of an event without its object.
const controlSize = 300

// sizeOf returns the approximate size of an event in memory. To count that of its Object takes a fifth as long as to
// decode it, so it is counted only if the memory that a Decoder has counted is 0.
func sizeOf(ev *stream.Event, memory int64) int64 {
	switch {
	case ev.Object == nil:
		return controlSize + int64(len(ev.JSON))
	case memory > 0:
		return controlSize + memory
	}
	return controlSize + size.Of(ev.Object.Object)
}
