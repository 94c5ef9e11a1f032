package acks

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// closing is the state of Close.
type closing struct {
	closed bool
	final  bool          // nothing more will be committed
	done   chan struct{} // closed when closed is set
	once   func() error  // commitLast, the first time
}

// Close is checkpoint.Tracker's.
func (c *committer) Close() error { return c.closing.once() }

func (c *committer) commitLast() error {
	c.mu.Lock()
	c.closing.closed = true
	close(c.closing.done)
	c.stopTimer()
	c.mu.Unlock()
	c.schedule.running.Wait()
	ctx, cancel := context.WithTimeoutCause(context.Background(), c.options.CommitTimeout, errNoAnswer)
	defer cancel()
	err := c.acquire(ctx)
	if err != nil {
		err = commitError(err)
	} else {
		err = c.commit(context.Background())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop(sync.OnceFunc(c.late))
	if err != nil {
		c.last.err, c.last.attempts, c.last.nextTry = err, max(c.last.attempts, 1), time.Time{}
	}
	return err
}

// stop says that nothing more will be committed. Late is called before acks that come from now on, unless it is nil.
// c.mu is held.
func (c *committer) stop(late func()) {
	c.closing.final = true
	for _, a := range c.accounts {
		a.stop(late)
	}
	c.notify()
}

// late logs that acks come after Close, before the first of them takes effect.
func (c *committer) late() {
	c.mu.Lock()
	accounts := slices.Collect(maps.Values(c.accounts))
	c.mu.Unlock()
	events := 0
	for _, a := range accounts {
		unacked, _, _ := a.status()
		events += unacked
	}
	c.options.Logger.Warn("events are acked after Tracker.Close, and come again in the next run", "events", events)
}
