package host

import (
	"context"
	"sync/atomic"
	"time"
)

// Lists bounds the number of snapshots read at once, so that Streams that start together do not request everything
// together. Any number of Streams may share it. A slot without an answer from the server ends after three
// seconds, so that a server that hangs does not hold up the others. Otherwise a slot lasts until the snapshot has been
// delivered, so a loop body must not wait for another Stream's snapshot with the same Lists.
type Lists struct{ slots chan struct{} }

// NewLists returns a Lists that allows n snapshots at once, at least one.
func NewLists(n int) *Lists { return &Lists{make(chan struct{}, max(n, 1))} }

// answerTimeout ends the slot of a Stream that waits for the server.
const answerTimeout = 3 * time.Second

// Take waits for a slot. On nil it returns nil.
func (l *Lists) Take(ctx context.Context) (*Slot, error) {
	if l == nil {
		return nil, nil
	}
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	t := &Slot{lists: l}
	t.timer = time.AfterFunc(answerTimeout, t.End)
	return t, nil
}

// Slot is a slot to read a snapshot. Its methods may be called on nil.
type Slot struct {
	lists *Lists
	timer *time.Timer // ends the slot while the Stream waits for the server
	over  atomic.Bool
}

// Await starts the timeout. It is called before the Stream waits for the server.
func (t *Slot) Await() {
	if t != nil {
		t.timer.Reset(answerTimeout)
	}
}

// Answered stops the timeout. It is called when the server has answered.
func (t *Slot) Answered() {
	if t != nil {
		t.timer.Stop()
	}
}

// End passes the slot on. It may be called more than once.
func (t *Slot) End() {
	if t == nil {
		return
	}
	t.timer.Stop()
	if t.over.CompareAndSwap(false, true) {
		<-t.lists.slots
	}
}

// IsOver reports whether the slot has ended, or there is none.
func (t *Slot) IsOver() bool { return t == nil || t.over.Load() }
