package stream

import (
	"context"

	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// takeListTurn takes a turn while a snapshot is read and delivered, to bound the memory of pages that wait for
// delivery. It gives the turn up before any other state, such as the wait after a failure.
func (w *worker) takeListTurn(ctx context.Context, s protocol.State) error {
	reads := false
	switch s := s.(type) {
	case protocol.Listing, protocol.ReadingInitial:
		reads = true
	case protocol.Connecting:
		reads = s.Initial()
	}
	if !reads {
		w.stopListing()
		return nil
	}
	if _, ok := s.(protocol.ReadingInitial); ok || w.lists == nil || !w.listTurn.IsOver() {
		return nil // a snapshot in progress continues, even if its turn is over
	}
	var err error
	w.listTurn, err = w.lists.Take(ctx)
	return err
}

func (w *worker) stopListing() {
	w.listTurn.End()
	w.listTurn = nil
}
