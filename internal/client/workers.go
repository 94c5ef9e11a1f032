package client

import (
	"sync"

	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// workers decodes the events of a watch in several goroutines, and keeps their order. The goroutines end with the pipe.
type workers struct {
	from  *decoders
	pipe  *pipe
	ready wait.Signal // is sent when there may be something to take

	working sync.WaitGroup

	mu         sync.Mutex // also held while data is cut from the pipe, so that batches keep its order
	room       *sync.Cond
	batches    []*batch // in order
	maxBatches int
	waiting    int // bytes of the batches; bounded, because a batch may be one large frame
	over       bool
}

// batch is a part of the data, cut by one worker.
type batch struct {
	data    []byte
	over    bool  // it is the last one
	err     error // why the data ends
	events  []Event
	decoded int  // bytes of data in events; frames decodes the rest
	done    bool // the worker has decoded it
}

// batchSize is about how many bytes a worker takes at once, so that some are left for the others.
const batchSize = 16 << 10

var batchBuffers = sync.Pool{New: func() any { b := make([]byte, 0, batchSize); return &b }}

func newWorkers(from *decoders, p *pipe, n int) *workers {
	w := &workers{from: from, pipe: p, ready: wait.NewSignal(), maxBatches: 2 * n}
	w.room = sync.NewCond(&w.mu)
	for range n {
		w.working.Go(w.work)
	}
	return w
}

func (w *workers) work() {
	for {
		b, over := w.begin()
		switch {
		case over:
			return
		case b == nil:
			<-w.pipe.ready
			continue
		}
		w.decode(b)
		w.mu.Lock()
		b.done = true
		w.mu.Unlock()
		w.ready.Send()
	}
}

func (w *workers) decode(b *batch) {
	if len(b.data) == 0 {
		return
	}
	dec := w.from.get()
	defer w.from.put(dec)
	for b.decoded < len(b.data) {
		ev, n, ok := decodeEvent(dec, b.data[b.decoded:])
		if !ok {
			return
		}
		b.events = append(b.events, ev)
		b.decoded += n
		b.decoded += w.from.format.space(b.data[b.decoded:])
	}
}

// begin cuts a batch from the pipe. It returns nil if nothing has arrived; over says that nothing will.
func (w *workers) begin() (b *batch, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for (len(w.batches) >= w.maxBatches || w.waiting >= w.maxBatches*batchSize) && !w.over {
		w.room.Wait()
	}
	if w.over {
		w.pipe.ready.Send() // wake the next worker, so that it ends, too
		return nil, true
	}
	buffer := batchBuffers.Get().(*[]byte)
	data, over, err := w.pipe.cut((*buffer)[:0], batchSize)
	if len(data) == 0 && !over {
		batchBuffers.Put(buffer)
		return nil, false
	}
	b = &batch{data: data, over: over, err: err}
	w.batches = append(w.batches, b)
	w.waiting += len(data)
	if over {
		w.over = true
		w.pipe.ready.Send()
		w.room.Broadcast()
	}
	return b, false
}

// take removes and returns the next batch, or nil if it is not decoded yet.
func (w *workers) take() *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.batches) == 0 || !w.batches[0].done {
		return nil
	}
	b := w.batches[0]
	w.batches[0] = nil
	w.batches = w.batches[1:]
	w.waiting -= len(b.data)
	w.room.Signal()
	return b
}

// reuse keeps a buffer for another batch.
func reuse(data []byte) {
	if cap(data) <= 2*batchSize {
		batchBuffers.Put(&data)
	}
}

// stop ends the workers and waits for them. The pipe must have been stopped.
func (w *workers) stop() {
	w.mu.Lock()
	w.over = true
	w.room.Broadcast()
	w.mu.Unlock()
	w.pipe.ready.Send()
	w.working.Wait()
}
