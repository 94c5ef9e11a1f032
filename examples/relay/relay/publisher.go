package relay

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	lease    time.Duration
	observer Observer
	logger   *slog.Logger
	onLost   func()        // called without the mutex
	slow     time.Duration // how long a batch may take: while one takes longer, the reports of the replica may wait

	// Only run uses these.
	most  int      // messages of a batch; zero means what the engine accepts
	tried []*batch // of which it is unknown whether the engine has accepted them, and which are not repeated

	mu    sync.Mutex
	units map[string]*owned // by the key of their source
	queue queue
	ended bool
	err   error     // why the last Publish failed; nil if it did not
	last  time.Time // when one was successful
}

// published is what the log has of a unit.
type published struct {
	position engine.Position
	revision uint64
	synced   bool   // everything that existed
	upToDate bool   // and everything that happened before the unit was taken
	tries    uint64 // batches after the position that were tried: each has a position of its own
}

// received is what has been received of a unit, and accepted.
type received struct {
	progress progress  // after the last event
	adding   int       // events that wait to be added to the queue
	pending  int       // items in the queue
	oldest   time.Time // when the first of these was received
	skipped  uint64    // events that the engine can't take
	taken    time.Time // when the unit was
	state    unitState
}

// unitState says what is still accepted of a unit.
type unitState int

const (
	publishing unitState = iota
	releasing            // what is in the queue
	lost                 // nothing: another replica has taken it, or its release is committed
)

func newPublisher(log engine.Log, cfg *Config, o Observer, logger *slog.Logger, onLost func()) *publisher {
	lease := cfg.Replica.Lease.Duration
	p := &publisher{
		log: log, lease: lease, slow: lease / 6, observer: o, logger: logger, onLost: onLost,
		units: map[string]*owned{},
	}
	p.queue = newQueue(cfg.Queue.Bytes/2, &p.mu)
	return p
}

// register makes the publisher accept the events of a unit, which begins at a position in the log.
func (p *publisher) register(o *owned, position engine.Position, revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o.published = published{position: position, revision: revision, synced: position.ResourceVersion != ""}
	o.received = received{progress: newProgress(position, o.selected.scope), taken: time.Now()}
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
	o.received.adding++
	defer func() { o.received.adding-- }()
	it := item{unit: o, received: time.Now()}
	if ev.Type != stream.Bookmark {
		p.mu.Unlock()
		m, err := p.encode(o, ev)
		p.mu.Lock()
		if err != nil {
			p.skipped(o, m)
		}
		m.Scope = o.selected.scope
		it.message = &m
	}
	for p.queue.isFull() && o.received.state == publishing && !p.ended {
		p.queue.freed.Wait()
	}
	if o.received.state != publishing || p.ended {
		return
	}
	// The SYNCED with which a Stream resumes says nothing.
	it.upToDate = ev.Type == stream.Bookmark ||
		ev.Type == stream.Synced && ev.ResourceVersion != o.received.progress.version
	o.received.progress = o.received.progress.add(ev)
	it.progress = o.received.progress
	p.queue.push(it)
}

// encode returns the message of an event and, if the engine can't take that, one which says so, with the reason.
func (p *publisher) encode(o *owned, ev stream.Event) (engine.Message, error) {
	m, err := o.encoder.Encode(o.selected.Unit, ev, o.epoch, o.selected.redaction)
	if err == nil {
		err = p.log.Check(m)
	}
	if err != nil {
		m = o.encoder.EncodeSkipped(o.selected.Unit, ev, o.epoch, err)
	}
	return m, err
}

// skipped counts an event that can't be published, and logs the first, the second, the fourth, and so on: whoever makes
// them must not fill the log. m stands for the event. It needs the mutex.
func (p *publisher) skipped(o *owned, m engine.Message) {
	o.received.skipped++
	if n := o.received.skipped; n&(n-1) == 0 {
		p.logger.Error("an event is skipped: what the engine has of its object may be missing or old", "unit",
			o.selected.Unit.String(), "skipped", n, "message", string(m.Data))
	}
}

// release publishes what is queued of a unit, and that nobody owns it. It waits until that is committed, or the unit is
// lost. The unit's source must have ended.
func (p *publisher) release(ctx context.Context, o *owned) error {
	p.mu.Lock()
	if o.received.state == publishing {
		o.received.state = releasing
		p.queue.push(item{unit: o, progress: o.received.progress, release: true, received: time.Now()})
		p.queue.freed.Broadcast()
	}
	p.mu.Unlock()
	select {
	case <-o.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("release %s: %w", o.selected.Unit, context.Cause(ctx))
	}
}

// run publishes until ctx ends.
func (p *publisher) run(ctx context.Context) {
	defer func() {
		p.mu.Lock()
		p.ended = true
		p.queue.freed.Broadcast()
		p.mu.Unlock()
	}()
	for ctx.Err() == nil {
		if batch := p.next(); len(batch) > 0 {
			p.publish(ctx, batch)
			continue
		}
		select {
		case <-p.queue.added:
		case <-ctx.Done():
		}
	}
}

// next returns as much of the queue as the engine accepts at once.
func (p *publisher) next() []*batch {
	limits := p.log.Limits()
	if p.most > 0 {
		limits.Messages = min(limits.Messages, p.most)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.next(limits)
}

// lose drops what is queued of a unit.
func (p *publisher) lose(o *owned) {
	p.mu.Lock()
	p.end(o)
	p.queue.remove(func(it *item) bool { return it.unit == o })
	if len(p.queue.items) == 0 {
		p.err = nil // nothing is refused any more
	}
	p.mu.Unlock()
	p.onLost()
}

// end needs the mutex.
func (p *publisher) end(o *owned) {
	if o.received.state != lost {
		o.received.state = lost
		close(o.ended)
	}
	delete(p.units, o.key)
}

// isIdle reports whether all events of a unit that were received are in the log.
func (p *publisher) isIdle(o *owned) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return o.received.pending+o.received.adding == 0
}

// status describes a unit. source is what the Mux says of it.
func (p *publisher) status(o *owned, source mux.SourceStatus) engine.UnitStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	// What happened before the unit was taken may have waited for long, and arrives soon.
	upToDate := o.published.upToDate || o.received.pending == 0 && time.Since(o.received.taken) >= p.lease
	s := engine.UnitStatus{
		Unit: o.selected.Unit, State: string(source.State), Epoch: o.epoch,
		Synced:          source.Synced && o.published.synced && upToDate,
		ResourceVersion: o.published.position.ResourceVersion, Pending: o.received.pending, Skipped: o.received.skipped,
		Coalesced: source.Coalesced + source.Vanished,
	}
	if source.Stream != nil {
		s.Objects = source.Stream.Objects
	}
	if o.received.pending > 0 {
		s.Lag = time.Since(o.received.oldest)
	}
	switch {
	case source.Err != nil:
		s.Problem = source.Err.Error()
	case source.Stream != nil && source.Stream.Cause != nil:
		s.Problem = source.Stream.Cause.Error()
	}
	return s
}

// idleFor reports whether nothing was published for a time.
func (p *publisher) idleFor(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.last) > d
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
