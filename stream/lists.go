package stream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// Lists bounds how many snapshots are read at once, so that many Streams that
// start together do not ask for everything together. It may be used by any
// number of Streams. A server that does not answer is waited for without holding
// up the others: what takes longer than three seconds does not count any more. But
// a snapshot counts until it has been told, so a loop body must not wait for
// another Stream's snapshot with the same Lists.
type Lists struct{ turns chan struct{} }

// NewLists returns one that lets n be read at once, or one if n is less.
func NewLists(n int) *Lists { return &Lists{make(chan struct{}, max(n, 1))} }

// listPatience is how long one has a turn in which nothing comes.
const listPatience = 3 * time.Second

// take waits for a turn. It may be called on nil, and returns nil then.
func (l *Lists) take(ctx context.Context) (*listTurn, error) {
	if l == nil {
		return nil, nil
	}
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	t := &listTurn{lists: l}
	t.timer = time.AfterFunc(listPatience, t.end)
	return t, nil
}

// listTurn is a turn to read a snapshot. Its methods may be called on nil.
type listTurn struct {
	lists *Lists
	timer *time.Timer // ends it while the server is waited for
	over  atomic.Bool
}

// await is to be called before the server is waited for, and come after that.
func (t *listTurn) await() {
	if t != nil {
		t.timer.Reset(listPatience)
	}
}

func (t *listTurn) come() {
	if t != nil {
		t.timer.Stop()
	}
}

// end gives the turn to somebody else.
func (t *listTurn) end() {
	if t == nil {
		return
	}
	t.timer.Stop()
	if t.over.CompareAndSwap(false, true) {
		<-t.lists.turns
	}
}

func (t *listTurn) isOver() bool { return t == nil || t.over.Load() }

// limitLists takes a turn for the time in which a snapshot is read and told: the
// pages that wait to be told are what takes memory. While it waits to be tried
// again after a failure, others have their turn.
func (l *lane) limitLists(ctx context.Context, s protocol.State) error {
	reads := false
	switch s := s.(type) {
	case protocol.Listing, protocol.Replaying:
		reads = true
	case protocol.Connecting:
		reads = s.Streamed()
	}
	if !reads {
		l.stopListing()
		return nil
	}
	if _, ok := s.(protocol.Replaying); ok || l.lists == nil || !l.reads.isOver() {
		return nil // it has begun, and a turn that is over does not stop it
	}
	var err error
	l.reads, err = l.lists.take(ctx)
	return err
}

func (l *lane) stopListing() {
	l.reads.end()
	l.reads = nil
}
