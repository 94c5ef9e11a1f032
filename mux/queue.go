package mux

import "github.com/gvrwatch/gvrwatch/stream"

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
	pop() item    // there is one
	len() int     // the end counts
	events() int  // without it
	bytes() int64 // of them
}

// ring is a queue that keeps everything.
type ring struct {
	items       []item // its capacity is used round and round
	first, n    int
	told, total int64
}

func (q *ring) push(it item) {
	if q.n == len(q.items) {
		more := make([]item, max(4, 2*q.n))
		n := copy(more, q.items[q.first:])
		copy(more[n:], q.items[:q.first])
		q.items, q.first = more, 0
	}
	q.items[(q.first+q.n)%len(q.items)] = it
	q.n++
	q.total += it.size
	if !it.end {
		q.told++
	}
}

func (q *ring) pop() item {
	at := &q.items[q.first]
	it := *at
	*at = item{} // what has been told need not be kept
	q.first = (q.first + 1) % len(q.items)
	q.n--
	q.total -= it.size
	if !it.end {
		q.told--
	}
	return it
}

func (q *ring) len() int     { return q.n }
func (q *ring) events() int  { return int(q.told) }
func (q *ring) bytes() int64 { return q.total }
