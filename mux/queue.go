package mux

import (
	"github.com/gvrwatch/gvrwatch/internal/size"
	"github.com/gvrwatch/gvrwatch/stream"
)

// item is an event, or the end of its source.
type item struct {
	event stream.Event
	size  int64
	end   bool
	err   error // of the end
	run   int   // of the end: worker.runs
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

// pop moves the first item to a place. The ring must not be empty.
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
	ring[item]
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
	if q.synced && q.n == 0 {
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
