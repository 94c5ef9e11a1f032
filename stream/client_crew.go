package stream

import (
	"bytes"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// crew decodes the events of a watch in several goroutines, and keeps their order.
// They end when the pipe does.
type crew struct {
	from  *decoders
	pipe  *pipe
	ready chan struct{} // has one when there may be something to take

	working sync.WaitGroup

	mu      sync.Mutex // held while something is taken from the pipe, so that batches keep its order
	room    *sync.Cond
	batches []*batch // in order
	most    int      // of them
	spare   [][]byte // to take into: a watch that is silent keeps few
	over    bool
}

// batch is what a worker has taken.
type batch struct {
	data    []byte
	over    bool // there is nothing after it
	err     error
	events  []watch.Event
	decoded int // bytes of data; what follows is not like the rest, and left to others
	done    bool
}

// batchSize is about what a worker takes at once, so that there is something left
// for the others.
const batchSize = 16 << 10

func newCrew(from *decoders, p *pipe, workers int) *crew {
	c := &crew{from: from, pipe: p, ready: make(chan struct{}, 1), most: 2 * workers}
	c.room = sync.NewCond(&c.mu)
	for range workers {
		c.working.Go(c.work)
	}
	return c
}

func (c *crew) work() {
	for {
		b := c.begin()
		switch {
		case b == nil:
			return
		case len(b.data) > 0:
			dec := c.from.get()
			for b.decoded < len(b.data) {
				ev, n, ok := decodeEvent(dec, b.data[b.decoded:])
				if !ok {
					break
				}
				b.events = append(b.events, ev)
				b.decoded += n
				b.decoded = len(b.data) - len(bytes.TrimLeft(b.data[b.decoded:], " \t\r\n"))
			}
			c.from.put(dec)
		}
		c.mu.Lock()
		b.done = true
		c.mu.Unlock()
		wake(c.ready)
	}
}

// begin waits for something to do. It returns nil when there is nothing any more.
func (c *crew) begin() *batch {
	for {
		if b, over := c.tryBegin(); b != nil || over {
			return b
		}
		<-c.pipe.ready
	}
}

func (c *crew) tryBegin() (b *batch, over bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.batches) >= c.most && !c.over {
		c.room.Wait()
	}
	if c.over {
		wake(c.pipe.ready) // the others shall see it too
		return nil, true
	}
	var spare []byte
	if n := len(c.spare); n > 0 {
		spare, c.spare = c.spare[n-1], c.spare[:n-1]
	}
	data, over, err := c.pipe.cut(spare[:0], batchSize)
	if len(data) == 0 && !over {
		c.spare = append(c.spare, data)
		c.limitSpare()
		return nil, false
	}
	b = &batch{data: data, over: over, err: err}
	c.batches = append(c.batches, b)
	if over {
		c.over = true
		wake(c.pipe.ready)
		c.room.Broadcast()
	}
	return b, false
}

// take returns the next batch, or nil if it is not decoded yet.
func (c *crew) take() *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.batches) == 0 || !c.batches[0].done {
		return nil
	}
	b := c.batches[0]
	c.batches[0] = nil
	c.batches = c.batches[1:]
	c.room.Signal()
	return b
}

// reuse takes a buffer back.
func (c *crew) reuse(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cap(data) <= 2*batchSize {
		c.spare = append(c.spare, data)
	}
	c.limitSpare()
}

// limitSpare keeps one more than there are batches, of which each may come back.
func (c *crew) limitSpare() {
	if most := len(c.batches) + 1; len(c.spare) > most {
		clear(c.spare[most:])
		c.spare = c.spare[:most]
	}
}

// stop ends the workers: the pipe has been stopped.
func (c *crew) stop() {
	c.mu.Lock()
	c.over = true
	c.room.Broadcast()
	c.mu.Unlock()
	wake(c.pipe.ready)
	c.working.Wait()
}
