package acks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

const minBackoff, maxBackoff = 100 * time.Millisecond, 30 * time.Second

var errClosed = fmt.Errorf("checkpoint.Tracker is closed, or not from NewTracker: %w", os.ErrClosed)

// committer commits what the sessions of one Tracker have acked.
type committer struct {
	store   checkpoint.Store
	options checkpoint.Options
	rules   rules         // of every session
	turn    chan struct{} // held while the Store is in use; capacity one

	mu       sync.Mutex
	accounts map[string]account // the last one under each key
	schedule schedule
	last     outcome
	closing  closing
}

// account is what a committer sees of a session.
type account interface {
	take() (d checkpoint.Delta, ok bool)     // what there is to commit
	committed(d checkpoint.Delta, err error) // how its commit ended
	isUrgent() bool                          // an event waits for the commit
	isDone() bool                            // there is nothing to commit, and never will be
	stop()                                   // nothing more will be committed
}

// schedule is the state of the next commit.
type schedule struct {
	timer       *time.Timer    // until the next commit; nil if none is due
	committing  bool           // a goroutine commits
	running     sync.WaitGroup // that goroutine
	acked       int            // events since the last commit
	uncommitted bool           // there are changes to commit
}

// outcome is how the last commits ended.
type outcome struct {
	success  time.Time // of the last commit that succeeded
	err      error     // of the last commit, if it failed
	attempts int       // that failed in a row
	nextTry  time.Time // zero if there will be none
}

type closing struct {
	closed bool
	final  bool          // nothing more will be committed
	done   chan struct{} // closed when closed is set
	once   func() error  // commitLast, the first time
}

func newCommitter(store checkpoint.Store, options checkpoint.Options) friend.Engine {
	_, noObjects := store.(interface{ PositionsOnly() })
	c := &committer{
		store: store, options: options, turn: make(chan struct{}, 1), accounts: map[string]account{},
		rules:   rules{noWriteAhead: options.NoWriteAhead || noObjects, noObjects: noObjects},
		closing: closing{done: make(chan struct{})},
	}
	c.closing.once = sync.OnceValue(c.commitLast)
	return c
}

// acquire waits for a turn to use the Store. It returns the cause if ctx ends first.
func (c *committer) acquire(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *committer) release() { <-c.turn }

// account returns the last account under a key, which may be nil, and an error if no other will be committed.
func (c *committer) account(key string) (last account, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.final && !c.closing.closed {
		err = c.last.err
	}
	return c.accounts[key], err
}

// load loads a checkpoint. The caller has acquired the turn, and keeps it unless load returns an error.
func (c *committer) load(ctx context.Context, key string) (*checkpoint.Checkpoint, error) {
	var saved *checkpoint.Checkpoint // belongs to the Store until it has answered
	err := call(ctx.Done(), c.release, func() (err error) {
		saved, err = c.store.Load(ctx, key)
		return err
	})
	switch err {
	case nil:
		return saved, nil
	case errNoAnswer:
		c.record(0, errNoAnswer) // so that no session waits for the Store
		return nil, context.Cause(ctx)
	}
	c.release()
	return nil, err
}

// open replaces the last account under a key, for a caller that has acquired the turn.
func (c *committer) open(key string, a account) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.closed {
		return errClosed
	}
	c.accounts[key] = a
	return nil
}

// due says that there is something to commit, with that many events.
func (c *committer) due(events int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedule.acked += events
	c.schedule.uncommitted = true
	c.plan()
}

// commitSoon commits at once what is due, unless the last commit failed: then the retry commits it.
func (c *committer) commitSoon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.schedule.timer != nil && c.last.err == nil {
		c.start()
	}
}

// plan schedules what there is to commit: at once if enough events have been acked, else after the interval. After a
// failure it waits for the next try. c.mu is held.
func (c *committer) plan() {
	enough := c.last.err == nil && c.schedule.acked >= c.options.Events
	switch {
	case !c.schedule.uncommitted, c.schedule.committing, c.closing.closed, c.closing.final:
	case enough:
		c.start()
	case c.schedule.timer == nil:
		after := c.options.Interval
		if c.last.err != nil {
			after = time.Until(c.last.nextTry)
		}
		c.schedule.timer = time.AfterFunc(after, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.start()
		})
	}
}

func (c *committer) stopTimer() {
	if c.schedule.timer != nil {
		c.schedule.timer.Stop()
		c.schedule.timer = nil
	}
}

// start starts a goroutine that commits, unless one runs. c.mu is held.
func (c *committer) start() {
	c.stopTimer()
	if c.schedule.committing || c.closing.closed {
		return
	}
	c.schedule.committing = true
	c.schedule.running.Go(func() {
		select {
		case c.turn <- struct{}{}:
			_ = c.commit(context.Background()) // Status shows a failure
		case <-c.closing.done:
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.schedule.committing = false
		c.plan()
	})
}

// batch is the contents of one commit.
type batch struct {
	acked    int // schedule.acked before it
	deltas   []checkpoint.Delta
	accounts []account // of the deltas
}

// commit commits what there is. The caller has acquired the turn, and commit releases it. If ctx ends first, commit
// returns the cause, and the commit continues in the background.
func (c *committer) commit(ctx context.Context) error {
	b := c.gather()
	if len(b.deltas) == 0 {
		defer c.release()
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.closing.final {
			return c.last.err
		}
		c.last = outcome{success: c.last.success} // what failed to commit is not needed any more
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- c.write(ctx, b) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// gather takes what there is to commit of all accounts.
func (c *committer) gather() batch {
	c.mu.Lock()
	if c.closing.final {
		c.mu.Unlock()
		return batch{}
	}
	var accounts []account
	for _, key := range slices.Sorted(maps.Keys(c.accounts)) {
		if a := c.accounts[key]; a.isDone() {
			delete(c.accounts, key)
		} else {
			accounts = append(accounts, a)
		}
	}
	b := batch{acked: c.schedule.acked}
	c.schedule.acked, c.schedule.uncommitted = 0, false
	c.mu.Unlock()
	for _, a := range accounts {
		if d, ok := a.take(); ok {
			b.deltas, b.accounts = append(b.deltas, d), append(b.accounts, a)
		}
	}
	return b
}

// write calls the Store, and records the outcome.
func (c *committer) write(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.options.CommitTimeout)
	defer cancel()
	late := make(chan struct{}) // closed some time after ctx ends, so that the Store can return ctx's error
	defer context.AfterFunc(ctx, func() { time.AfterFunc(gracePeriod, func() { close(late) }) })()
	recorded := make(chan struct{}) // the next commit waits until the outcome of this one is recorded
	defer close(recorded)
	err := call(late, func() { <-recorded; c.release() }, func() error { return c.store.Commit(ctx, b.deltas) })
	for i, a := range b.accounts {
		a.committed(b.deltas[i], err)
	}
	failed := c.record(b.acked, err)
	if err != errNoAnswer {
		c.release()
	}
	return failed
}

// record records and logs the outcome of a commit, which had that many acked events.
func (c *committer) record(acked int, err error) error {
	c.mu.Lock()
	was := c.last
	if err == nil {
		c.last = outcome{success: time.Now()}
	} else {
		c.last = outcome{success: was.success, err: commitError(err), attempts: was.attempts + 1}
		c.schedule.acked += acked
		c.schedule.uncommitted = true
		if isFinal(err) {
			c.stop()
		} else {
			bound := wait.Doubled(was.attempts+2, min(max(c.options.Interval, minBackoff), maxBackoff), maxBackoff)
			c.last.nextTry = time.Now().Add(wait.Between(bound/2, bound))
		}
	}
	last := c.last
	c.stopTimer() // it may be a retry's, or the interval's, which can be hours
	c.plan()
	c.mu.Unlock()
	switch log := c.options.Logger; {
	case err == nil && was.err != nil:
		log.Info("checkpoints are committed again")
	case err == nil:
	case last.nextTry.IsZero():
		log.Error("checkpoint commits stopped permanently", "error", err)
	default:
		log.Warn("checkpoints can't be committed, trying again",
			"error", err, "attempts", last.attempts, "after", time.Until(last.nextTry))
	}
	return last.err
}

// writeAhead commits what an event of a waits for, together with everything else there is. A caller that waits
// while another caller commits may find its own changes committed by then. If ctx ends, writeAhead returns the cause.
func (c *committer) writeAhead(ctx context.Context, a account) error {
	if !c.isHealthy() {
		c.due(0) // a retry that is under way does not have the changes of a
		return context.Cause(ctx)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, c.options.CommitTimeout, errNoAnswer)
	defer cancel()
	switch err := c.acquire(bounded); {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		c.record(0, errNoAnswer)
		return nil
	}
	if !c.isHealthy() || !a.isUrgent() {
		c.release()
		return context.Cause(ctx)
	}
	_ = c.commit(ctx) // Status shows a failure
	return context.Cause(ctx)
}

// Flush is checkpoint.Tracker's.
func (c *committer) Flush(ctx context.Context) error {
	if err := c.acquire(ctx); err != nil {
		return err
	}
	return c.commit(ctx)
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
	c.stop()
	if err != nil {
		c.last.err, c.last.attempts, c.last.nextTry = err, max(c.last.attempts, 1), time.Time{}
	}
	return err
}

// stop says that nothing more will be committed. c.mu is held.
func (c *committer) stop() {
	c.closing.final = true
	for _, a := range c.accounts {
		a.stop()
	}
}

func commitError(err error) error { return fmt.Errorf("can't commit checkpoints: %w", err) }

// isFinal reports whether no later commit can succeed.
func isFinal(err error) bool {
	_, fenced := errors.AsType[*checkpoint.FencedError](err)
	return fenced || errors.Is(err, os.ErrClosed)
}

// result returns the outcome of the last commits.
func (c *committer) result() outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// isHealthy reports whether the last commit succeeded, and there will be others.
func (c *committer) isHealthy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last.err == nil && !c.closing.final
}
