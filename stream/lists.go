package stream

import (
	"context"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// limitLists takes a turn for the time in which a snapshot is read and told: the
// pages that wait to be told are what takes memory. While it waits to be tried
// again after a failure, others have their turn.
func (w *worker) limitLists(ctx context.Context, s protocol.State) error {
	reads := false
	switch s := s.(type) {
	case protocol.Listing, protocol.Replaying:
		reads = true
	case protocol.Connecting:
		reads = s.Streamed()
	}
	if !reads {
		w.stopListing()
		return nil
	}
	if _, ok := s.(protocol.Replaying); ok || w.lists == nil || !w.listTurn.IsOver() {
		return nil // it has begun, and a turn that is over does not stop it
	}
	var err error
	w.listTurn, err = w.lists.Take(ctx)
	return err
}

func (w *worker) stopListing() {
	w.listTurn.End()
	w.listTurn = nil
}
