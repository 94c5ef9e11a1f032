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
}

// queue holds the events of a source that wait for the loop.
type queue interface {
	push(item)
	fits(*stream.Event) bool // the queue itself has room
	pop() item               // must not be called on an empty queue
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
	r.items[(r.first+r.n)%len(r.items)] = one
	r.n++
}

func (r *ring[T]) pop() T {
	var none T
	one := r.items[r.first]
	r.items[r.first] = none // release it
	r.first = (r.first + 1) % len(r.items)
	r.n--
	return one
}

// blockQueue keeps everything.
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

// controlSize is the size of an event without its object.
const controlSize = 300

// sizeOf returns the approximate size of an event in memory.
func sizeOf(ev *stream.Event) int64 {
	if ev.Object == nil {
		return controlSize + int64(len(ev.JSON))
	}
	return controlSize + size.Of(ev.Object.Object)
}
