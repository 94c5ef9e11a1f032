package relay

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// publish publishes batches together. If that fails, it publishes each alone until the engine has accepted it, the unit
// is lost, or ctx ends. Batches that take long are given up instead: the next ones are smaller.
func (p *publisher) publish(ctx context.Context, batches []*batch) {
	if p.tryInTime(ctx, batches) {
		return
	}
	for attempt := 0; len(batches) > 0 && ctx.Err() == nil; attempt++ {
		batches = slices.DeleteFunc(batches, func(b *batch) bool { return p.tryInTime(ctx, []*batch{b}) })
		if len(batches) > 0 {
			wait(ctx, backoff(attempt))
		}
	}
}

// tryInTime tries batches. If that fails, and has taken long, nothing is left to do for them, too.
func (p *publisher) tryInTime(ctx context.Context, batches []*batch) bool {
	began, n := time.Now(), 0
	for _, b := range batches {
		n += 1 + len(b.part.Messages)
	}
	ended := p.try(ctx, batches)
	switch took := time.Since(began); {
	case took > p.slow:
		p.most = max(n/2, smallest)
		if !ended && n > smallest {
			p.giveUp(batches)
			return true
		}
	case ended && p.most > 0 && took < p.slow/4:
		if p.most *= 2; p.most >= p.log.Limits().Messages {
			p.most = 0
		}
	}
	return ended
}

const smallest = 2 // messages of a batch that is not made smaller: one, and a position

// giveUp does not repeat batches: the engine may have accepted them, or still do.
func (p *publisher) giveUp(batches []*batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried = append(p.tried, batches...)
	p.tried = slices.DeleteFunc(p.tried, func(b *batch) bool { return b.unit.received.state == lost })
	for _, b := range batches {
		b.unit.published.tries++
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
	for _, other := range append(p.tried, b) {
		if other.unit == b.unit && e.Position == other.part.Position {
			p.observer.committed([]engine.Part{other.part}, 0)
			p.done([]*batch{other}, []uint64{e.Revision})
			return true // what else b has is still in the queue
		}
	}
	if e.Revision == b.part.Revision {
		return false // refused for another reason: the engine is busy with an earlier try
	}
	p.taken(b.unit, e.Position)
	return true
}

// taken drops what is queued of a unit that has another owner, or had one.
func (p *publisher) taken(o *owned, position engine.Position) {
	p.logger.Warn("another replica has taken the unit", "unit", o.selected.Unit.String(), "owner", position.Owner,
		"epoch", position.Epoch)
	p.observer.refused(o.selected.Unit)
	p.lose(o)
}

// done removes what was published from the queue.
func (p *publisher) done(batches []*batch, revisions []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		p.logger.Info("the engine accepts messages again")
	}
	p.err, p.last = nil, time.Now()
	left := map[*owned]int{}
	for i, b := range batches {
		b.unit.published = published{
			position: b.part.Position, revision: revisions[i], synced: b.synced,
			upToDate: b.upToDate || b.unit.published.upToDate,
		}
		p.tried = slices.DeleteFunc(p.tried, func(other *batch) bool { return other.unit == b.unit })
		left[b.unit] = b.items
		if b.part.Position.Owner == "" {
			p.end(b.unit)
		}
	}
	p.queue.remove(func(it *item) bool {
		left[it.unit]--
		return left[it.unit] >= 0
	})
}
