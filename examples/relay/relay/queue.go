package relay

import (
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// queue has the events that wait, in the order in which they were received. The publisher's mutex guards it.
type queue struct {
	items    []item
	bytes    int64
	maxBytes int64
	added    signal     // there may be more items
	freed    *sync.Cond // there are fewer
}

// item is one event in the queue. Without a message it only moves the position.
type item struct {
	unit     *owned
	message  *engine.Message
	progress progress // after the event
	release  bool     // the last item of a unit
	upToDate bool     // everything that happened before the unit was taken has been received
	received time.Time
}

const itemOverhead = 512 // bytes of memory that an item takes beside its data, roughly

func (it *item) size() int64 {
	if it.message == nil {
		return itemOverhead
	}
	return itemOverhead + int64(len(it.message.Data))
}

// count counts the item as one of its unit.
func (it *item) count() {
	r := &it.unit.received
	if r.pending++; r.pending == 1 {
		r.oldest = it.received
	}
}

func newQueue(maxBytes int64, mu sync.Locker) queue {
	return queue{maxBytes: maxBytes, added: newSignal(), freed: sync.NewCond(mu)}
}

func (q *queue) isFull() bool { return q.bytes >= q.maxBytes }

// push adds an item.
func (q *queue) push(it item) {
	it.count()
	q.items = append(q.items, it)
	q.bytes += it.size()
	q.added.set()
}

// remove removes the items for which remove returns true.
func (q *queue) remove(remove func(*item) bool) {
	for _, it := range q.items {
		it.unit.received.pending = 0
	}
	kept := q.items[:0]
	for _, it := range q.items {
		if remove(&it) {
			q.bytes -= it.size()
			continue
		}
		it.count()
		kept = append(kept, it)
	}
	clear(q.items[len(kept):])
	q.items = kept
	q.freed.Broadcast()
}

// batch is what is published of one unit at a time.
type batch struct {
	unit     *owned
	part     engine.Part
	items    int
	synced   bool // after it
	upToDate bool // see item
}

// next returns as much as the engine accepts at once. It stays in the queue.
func (q *queue) next(limits engine.Limits) []*batch {
	var batches []*batch
	byUnit := map[*owned]*batch{}
	messages, bytes := 0, 0
	for _, it := range q.items {
		b, known := byUnit[it.unit]
		more := 0
		if it.message != nil {
			more++
			bytes += len(it.message.Data)
		}
		if !known {
			more++ // its position
		}
		if len(batches) > 0 && (messages+more > limits.Messages || bytes > limits.Bytes) {
			break
		}
		messages += more
		if !known {
			b = &batch{unit: it.unit, part: engine.Part{
				Unit: it.unit.selected.Unit, Position: it.unit.published.position,
				Revision: it.unit.published.revision,
			}}
			b.part.Position.Commit += 1 + it.unit.published.tries
			byUnit[it.unit] = b
			batches = append(batches, b)
		}
		if b.items++; it.message != nil {
			b.part.Messages = append(b.part.Messages, *it.message)
		}
		it.progress.fill(&b.part.Position)
		b.synced, b.upToDate = it.progress.synced, b.upToDate || it.upToDate
		if it.release {
			b.part.Position.Owner = ""
		}
	}
	return batches
}
