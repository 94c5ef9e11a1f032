package acks

import (
	"cmp"
	"context"
	"sync"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// exposure says whether events were delivered that the Store should have known before. That happens while commits fail.
// A Store that can be marked is marked as soon as a commit has failed, before anything is delivered without it, and
// until a commit has everything that was.
type exposure struct {
	marked bool // the Store is
	later  bool // something was delivered since the last commit was gathered
}

func (e *exposure) gathered() { e.later = false }

func (e *exposure) delivered() { e.later = true }

// isOver reports whether the mark can be taken back after a commit that has succeeded.
func (e *exposure) isOver() bool { return e.marked && !e.later }

// marker is a Store that can be marked (see checkpoint.Store).
type marker interface {
	MarkUnclean(ctx context.Context, unclean bool) error
}

// marking marks a Store if it can be marked.
type marking struct {
	store checkpoint.Store
	never bool // nothing is ever exposed

	mu       sync.Mutex
	exposure exposure
}

// mark marks the Store, or takes the mark back, unless that has been done. The caller has acquired the turn.
func (m *marking) mark(ctx context.Context, unclean bool) error {
	store, ok := m.store.(marker)
	m.mu.Lock()
	ok = ok && !m.never && m.exposure.marked != unclean
	m.mu.Unlock()
	if !ok {
		return nil
	}
	if err := store.MarkUnclean(ctx, unclean); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exposure.marked = unclean
	return nil
}

func (m *marking) isOver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.exposure.isOver()
}

func (m *marking) gathered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exposure.gathered()
}

func (m *marking) delivered() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exposure.delivered()
}

// writeAhead commits what an event of a waits for, together with everything else there is. A caller that waits
// while another caller commits may find its own changes committed by then. While commits fail, the event waits for one
// that succeeds, or it is delivered without. If ctx ends, writeAhead returns the cause, and if the event would wait for
// ever, the error of the last commit.
func (c *committer) writeAhead(ctx context.Context, a account) error {
	for {
		switch failing, next, err := c.expose(); {
		case err != nil && c.result().err == nil && !a.isUrgent():
			return nil // the last commit had it
		case err != nil:
			return err
		case failing:
			c.due(0) // a retry that is under way does not have the changes of a
			if next == nil {
				return context.Cause(ctx)
			}
			select {
			case <-next:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		bounded, cancel := context.WithTimeoutCause(ctx, c.options.CommitTimeout, errNoAnswer)
		err := c.acquire(bounded)
		cancel()
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			c.record(batch{}, errNoAnswer)
			continue
		case !c.isHealthy():
			c.release()
			continue
		case !a.isUrgent():
			c.release()
			return context.Cause(ctx)
		}
		if err := c.commit(ctx); ctx.Err() != nil || err == nil && !a.isUrgent() { // Status shows a failure
			return context.Cause(ctx)
		}
	}
}

// expose says that an event is about to be delivered. If commits fail it reports that, and returns a channel that is
// closed after the next commit if the event has to wait, or an error if there will be none.
func (c *committer) expose() (failing bool, next <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch final := c.closing.final; {
	case c.last.err == nil && !final:
		return false, nil, nil
	case !c.options.WaitForCommits:
		c.marking.delivered()
		return true, nil, nil
	case final:
		return true, nil, cmp.Or(c.last.err, errClosed)
	}
	return true, c.recorded, nil
}

// notify wakes those who wait for a commit. c.mu is held.
func (c *committer) notify() {
	close(c.recorded)
	c.recorded = make(chan struct{})
}
