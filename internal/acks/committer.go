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

// A retry costs little, and after it there is nothing that a kill could lose.
const minBackoff, maxBackoff = 100 * time.Millisecond, 3 * time.Second

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
	recorded chan struct{} // closed when last or closing changes
	marking  marking
	closing  closing
}

// account is what a committer sees of a session.
type account interface {
	take() (d checkpoint.Delta, ok bool)     // what there is to commit
	committed(d checkpoint.Delta, err error) // how its commit ended
	isUrgent() bool                          // an event waits for the commit
	isDone() bool                            // there is nothing to commit, and never will be
	stop(late func())                        // nothing more will be committed; late is called before an ack, if not nil
	status() (unacked int, oldest time.Time, uncommitted bool)
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

func newCommitter(store checkpoint.Store, options checkpoint.Options) friend.Engine {
	_, noObjects := store.(interface{ PositionsOnly() })
	c := &committer{
		store: store, options: options, turn: make(chan struct{}, 1), accounts: map[string]account{},
		marking: marking{store: store, never: options.WaitForCommits},
		rules: rules{
			noWriteAhead: options.NoWriteAhead || noObjects, noObjects: noObjects, waits: options.WaitForCommits,
		},
		recorded: make(chan struct{}), closing: closing{done: make(chan struct{})},
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
	err := call(ctx.Done(), func(error) { c.release() }, func() (err error) {
		saved, err = c.store.Load(ctx, key)
		return err
	})
	switch err {
	case nil:
		return saved, nil
	case errNoAnswer:
		c.record(batch{}, errNoAnswer) // so that no session waits for the Store
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
	b, ok := c.gather()
	if !ok {
		c.release()
		return c.result().err
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

// gather takes what there is to commit of all accounts. It is not ok if no other commit follows.
func (c *committer) gather() (b batch, ok bool) {
	c.mu.Lock()
	if c.closing.final {
		c.mu.Unlock()
		return b, false
	}
	c.marking.gathered()
	var accounts []account
	for _, key := range slices.Sorted(maps.Keys(c.accounts)) {
		if a := c.accounts[key]; a.isDone() {
			delete(c.accounts, key)
		} else {
			accounts = append(accounts, a)
		}
	}
	b.acked = c.schedule.acked
	c.schedule.acked, c.schedule.uncommitted = 0, false
	c.mu.Unlock()
	for _, a := range accounts {
		if d, ok := a.take(); ok {
			b.deltas, b.accounts = append(b.deltas, d), append(b.accounts, a)
		}
	}
	return b, true
}

// write calls the Store, and records the outcome. If the commit fails, it marks the Store before it records that. The
// caller has acquired the turn, and it is released when the Store has answered.
func (c *committer) write(ctx context.Context, b batch) error {
	recorded := make(chan struct{}) // the next commit waits until the outcome of this one is recorded
	defer close(recorded)
	release := func(error) { <-recorded; c.release() }
	late := func(err error) {
		<-recorded
		if err == nil || c.mark(ctx, true, release) != errNoAnswer {
			c.release()
		}
	}
	var err, last error // of the commit, and of the last call
	if len(b.deltas) > 0 {
		err = ask(ctx, c.options.CommitTimeout, late, func(ctx context.Context) error {
			return c.store.Commit(ctx, b.deltas)
		})
	}
	if last = err; err != nil && err != errNoAnswer {
		if last = c.mark(ctx, true, release); last != nil {
			err = errors.Join(err, fmt.Errorf("mark the Store as unclean: %w", last))
		}
	}
	for i, a := range b.accounts {
		a.committed(b.deltas[i], err)
	}
	failed := c.record(b, err)
	if err == nil && c.marking.isOver() { // nothing is exposed meanwhile: events wait for the next commit
		last = c.mark(ctx, false, release)
	}
	if last != errNoAnswer {
		c.release()
	}
	return failed
}

// mark marks the Store, or takes the mark back. If the latter fails, it is tried again after the next commit.
func (c *committer) mark(ctx context.Context, unclean bool, late func(error)) error {
	return ask(ctx, c.options.CommitTimeout, late, func(ctx context.Context) error {
		return c.marking.mark(ctx, unclean)
	})
}

// record records and logs the outcome of a commit.
func (c *committer) record(b batch, err error) error {
	c.mu.Lock()
	was := c.last
	if err == nil {
		c.last = outcome{success: was.success}
		if len(b.deltas) > 0 { // else what failed to commit is not needed any more
			c.last.success = time.Now()
		}
	} else {
		c.last = outcome{success: was.success, err: commitError(err), attempts: was.attempts + 1}
		c.schedule.acked += b.acked
		c.schedule.uncommitted = true
		if isFinal(err) {
			c.stop(nil)
		} else {
			bound := wait.Doubled(was.attempts+2, min(max(c.options.Interval, minBackoff), maxBackoff), maxBackoff)
			c.last.nextTry = time.Now().Add(wait.Between(bound/2, bound))
		}
	}
	last := c.last
	c.notify()
	c.stopTimer() // it may be a retry's, or the interval's, which can be hours
	c.plan()
	c.mu.Unlock()
	switch log := c.options.Logger; {
	case err == nil && was.err != nil && len(b.deltas) > 0:
		log.Info("checkpoints are committed again")
	case err == nil:
	case last.nextTry.IsZero():
		log.Error("checkpoint commits stopped permanently", "error", err)
	case last.attempts&(last.attempts-1) == 0: // less and less often
		log.Warn("checkpoints can't be committed, trying again",
			"error", err, "attempts", last.attempts, "after", time.Until(last.nextTry))
	}
	return last.err
}

// Flush is checkpoint.Tracker's.
func (c *committer) Flush(ctx context.Context) error {
	if err := c.acquire(ctx); err != nil {
		return err
	}
	return c.commit(ctx)
}

func commitError(err error) error { return fmt.Errorf("can't commit checkpoints: %w", err) }

// isFinal reports whether no later commit can succeed.
func isFinal(err error) bool {
	fenced := errors.As(err, new(*checkpoint.FencedError))
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
