package run

import (
	"context"
	"sync/atomic"
	"time"
)

// Lists bounds the number of snapshots read at once, so that Streams that start together do not request everything
// together. Any number of Streams may share it. A turn without an answer from the server ends after three
// seconds, so that a server that hangs does not hold up the others. Otherwise a turn lasts until the snapshot has been
// delivered, so a loop body must not wait for another Stream's snapshot with the same Lists.
type Lists struct{ turns chan struct{} }

// NewLists returns a Lists that allows n snapshots at once, at least one.
func NewLists(n int) *Lists { return &Lists{make(chan struct{}, max(n, 1))} }

// answerTimeout ends the turn of a Stream that waits for the server.
const answerTimeout = 3 * time.Second

// Take waits for a turn. On nil it returns nil.
func (l *Lists) Take(ctx context.Context) (*Turn, error) {
	if l == nil {
		return nil, nil
	}
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	t := &Turn{lists: l}
	t.timer = time.AfterFunc(answerTimeout, t.End)
	return t, nil
}

// Turn is a turn to read a snapshot. Its methods may be called on nil.
type Turn struct {
	lists *Lists
	timer *time.Timer // ends the turn while the Stream waits for the server
	over  atomic.Bool
}

// Await starts the timeout. It is called before the Stream waits for the server.
func (t *Turn) Await() {
	if t != nil {
		t.timer.Reset(answerTimeout)
	}
}

// Answered stops the timeout. It is called when the server has answered.
func (t *Turn) Answered() {
	if t != nil {
		t.timer.Stop()
	}
}

// End passes the turn on. It may be called more than once.
func (t *Turn) End() {
	if t == nil {
		return
	}
	t.timer.Stop()
	if t.over.CompareAndSwap(false, true) {
		<-t.lists.turns
	}
}

// IsOver reports whether the turn has ended, or there is none.
func (t *Turn) IsOver() bool { return t == nil || t.over.Load() }
