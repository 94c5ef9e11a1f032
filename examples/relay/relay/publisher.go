package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// publisher queues the events of all units, and publishes them in batches: while the engine handles one, the next one
// gathers. Each batch has the positions of its units after it, so the events and the positions are one.
type publisher struct {
	log      engine.Log
	observer Observer
	logger   *slog.Logger
	maxBytes int64
	onLost   func() // called without the mutex

	mu    sync.Mutex
	units map[string]*owned // by the key of their source
	queue
	ended bool
	err   error // why the last Publish failed; nil if it did not
}

// queue has the events that wait, in the order in which they were received.
type queue struct {
	items []item
	bytes int64
	added chan struct{} // has a value if there may be more
	freed *sync.Cond    // there are fewer
}

// item is one event in the queue. Without a message it only moves the position.
type item struct {
	unit     *owned
	message  *engine.Message
	progress progress // after the event
	release  bool     // the last item of a unit
	received time.Time
}

const itemOverhead = 512 // bytes of memory that an item takes beside its data, roughly

func newPublisher(log engine.Log, maxBytes int64, o Observer, logger *slog.Logger, onLost func()) *publisher {
	p := &publisher{
		log: log, observer: o, logger: logger, maxBytes: maxBytes, onLost: onLost,
		units: map[string]*owned{}, queue: queue{added: make(chan struct{}, 1)},
	}
	p.freed = sync.NewCond(&p.mu)
	return p
}

// register makes the publisher accept the events of a unit.
func (p *publisher) register(o *owned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.units[o.key] = o
}

// add queues an event. It waits while the queue is full. An event of a unit that is not owned any more is dropped:
// the position has not passed it, so its next owner receives it.
func (p *publisher) add(ev stream.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.units[mux.SourceOf(ev)]
	if o == nil {
		return
	}
	o.adding++
	defer func() { o.adding-- }()
	it := item{unit: o, received: time.Now()}
	if ev.Type != stream.Bookmark {
		p.mu.Unlock()
		m, err := o.encoder.Encode(o.Unit, ev, o.epoch, o.redaction)
		p.mu.Lock()
		if err != nil { // only if ev is none that a Stream delivers
			p.logger.Error("an event is not published", "unit", o.Unit.String(), "event", ev.String(), "err", err)
			return
		}
		m.Scope = o.scope
		it.message = &m
	}
	for p.bytes >= p.maxBytes && o.state == publishing && !p.ended {
		p.freed.Wait()
	}
	if o.state != publishing || p.ended {
		return
	}
	o.progress = o.progress.add(ev)
	it.progress = o.progress
	p.push(it)
}

// push needs the mutex.
func (p *publisher) push(it item) {
	if it.unit.pending++; it.unit.pending == 1 {
		it.unit.oldest = it.received
	}
	p.items = append(p.items, it)
	p.bytes += it.size()
	select {
	case p.added <- struct{}{}:
	default:
	}
}

func (it *item) size() int64 {
	if it.message == nil {
		return itemOverhead
	}
	return itemOverhead + int64(len(it.message.Data))
}

// release publishes what is queued of a unit, and that nobody owns it. It waits until that is committed, or the unit is
// lost. The unit's source must have ended.
func (p *publisher) release(ctx context.Context, o *owned) error {
	p.mu.Lock()
	if o.state == publishing {
		o.state = releasing
		p.push(item{unit: o, progress: o.progress, release: true, received: time.Now()})
		p.freed.Broadcast()
	}
	p.mu.Unlock()
	select {
	case <-o.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("release %s: %w", o.Unit, context.Cause(ctx))
	}
}

// run publishes until ctx ends.
func (p *publisher) run(ctx context.Context) {
	defer func() {
		p.mu.Lock()
		p.ended = true
		p.freed.Broadcast()
		p.mu.Unlock()
	}()
	for ctx.Err() == nil {
		if batch := p.next(); len(batch) > 0 {
			p.publish(ctx, batch)
			continue
		}
		select {
		case <-p.added:
		case <-ctx.Done():
		}
	}
}

// batch is what is published of one unit at a time.
type batch struct {
	unit  *owned
	part  engine.Part
	items int
}

// next returns as much of the queue as the engine accepts at once.
func (p *publisher) next() []*batch {
	limits := p.log.Limits()
	p.mu.Lock()
	defer p.mu.Unlock()
	var batches []*batch
	byUnit := map[*owned]*batch{}
	messages, bytes := 0, 0
	for _, it := range p.items {
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
				Unit: it.unit.Unit, Position: it.unit.position, Revision: it.unit.revision,
			}}
			b.part.Position.Commit++
			byUnit[it.unit] = b
			batches = append(batches, b)
		}
		if b.items++; it.message != nil {
			b.part.Messages = append(b.part.Messages, *it.message)
		}
		it.progress.fill(&b.part.Position)
		if it.release {
			b.part.Position.Owner = ""
		}
	}
	return batches
}

// publish publishes batches together. If that fails, it publishes each alone until the engine has accepted it, the unit
// is lost, or ctx ends.
func (p *publisher) publish(ctx context.Context, batches []*batch) {
	if p.try(ctx, batches) {
		return
	}
	for attempt := 0; len(batches) > 0 && ctx.Err() == nil; attempt++ {
		batches = slices.DeleteFunc(batches, func(b *batch) bool { return p.try(ctx, []*batch{b}) })
		if len(batches) > 0 {
			wait(ctx, backoff(attempt))
		}
	}
}

// try reports whether nothing is left to do for batches.
func (p *publisher) try(ctx context.Context, batches []*batch) bool {
	parts := make([]engine.Part, len(batches))
	for i, b := range batches {
		parts[i] = b.part
	}
	began := time.Now()
	revisions, err := p.log.Publish(ctx, parts)
	switch {
	case err == nil:
		p.observer.committed(parts, time.Since(began))
		p.done(batches, revisions)
		return true
	case ctx.Err() != nil:
		return false
	case errors.Is(err, engine.ErrFenced) && len(batches) == 1:
		return p.fenced(ctx, batches[0])
	case errors.Is(err, engine.ErrFenced):
		return false // which one it is shows when each is published alone
	case errors.Is(err, engine.ErrTooLarge) && len(batches) == 1:
		p.logger.Warn("a message is too large, as the engine's limit is lower now; taking the unit again", "unit",
			batches[0].part.Unit.String(), "err", err)
		p.lose(batches[0].unit) // its next owner, which may be this replica, encodes with the new limit
		return true
	}
	p.failed(err)
	return false
}

// fenced finds out why the position was not the expected one: an earlier try of the same batch was successful although
// it seemed to fail, or the unit has another owner.
func (p *publisher) fenced(ctx context.Context, b *batch) bool {
	e, err := p.log.Position(ctx, b.part.Unit)
	if err != nil {
		p.failed(err)
		return false
	}
	if e.Position == b.part.Position {
		p.observer.committed([]engine.Part{b.part}, 0)
		p.done([]*batch{b}, []uint64{e.Revision})
		return true
	}
	if e.Revision == b.part.Revision {
		return false // refused for another reason: the engine is busy with an earlier try
	}
	p.logger.Warn("another replica has taken the unit", "unit", b.part.Unit.String(), "owner", e.Position.Owner,
		"epoch", e.Position.Epoch)
	p.observer.refused(b.part.Unit)
	p.lose(b.unit)
	return true
}

// done removes what was published from the queue.
func (p *publisher) done(batches []*batch, revisions []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		p.logger.Info("the engine accepts messages again")
	}
	p.err = nil
	left := map[*owned]int{}
	for i, b := range batches {
		b.unit.position, b.unit.revision = b.part.Position, revisions[i]
		left[b.unit] = b.items
		if b.part.Position.Owner == "" {
			p.end(b.unit)
		}
	}
	p.remove(func(it *item) bool {
		left[it.unit]--
		return left[it.unit] >= 0
	})
}

// lose drops what is queued of a unit.
func (p *publisher) lose(o *owned) {
	p.mu.Lock()
	p.end(o)
	p.remove(func(it *item) bool { return it.unit == o })
	p.mu.Unlock()
	p.onLost()
}

// end needs the mutex.
func (p *publisher) end(o *owned) {
	if o.state != lost {
		o.state = lost
		close(o.ended)
	}
	delete(p.units, o.key)
}

// remove removes items from the queue. It needs the mutex.
func (p *publisher) remove(remove func(*item) bool) {
	for _, it := range p.items {
		it.unit.pending = 0
	}
	kept := p.items[:0]
	for _, it := range p.items {
		if remove(&it) {
			p.bytes -= it.size()
			continue
		}
		if it.unit.pending++; it.unit.pending == 1 {
			it.unit.oldest = it.received
		}
		kept = append(kept, it)
	}
	clear(p.items[len(kept):])
	p.items = kept
	p.freed.Broadcast()
}

func (p *publisher) isIdle(o *owned) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return o.pending+o.adding == 0
}

// problem returns why the engine does not accept messages, or nil if it does.
func (p *publisher) problem() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *publisher) failed(err error) {
	p.mu.Lock()
	first := p.err == nil
	p.err = err
	p.mu.Unlock()
	if first {
		p.logger.Warn("the engine does not accept messages; trying again", "err", err)
	}
}

// backoff returns a random wait, which grows up to 5 s.
func backoff(attempt int) time.Duration {
	most := min(50*time.Millisecond<<min(attempt, 10), 5*time.Second)
	return most/2 + rand.N(most/2)
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
