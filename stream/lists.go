package stream

import "context"

// Lists bounds how many snapshots are read at once, so that many Streams that
// start together do not ask for everything together. It may be used by any
// number of Streams.
type Lists struct{ turns chan struct{} }

// NewLists returns one that lets n be read at once, or one if n is less.
func NewLists(n int) *Lists { return &Lists{make(chan struct{}, max(n, 1))} }

// take waits for a turn. It may be called on nil.
func (l *Lists) take(ctx context.Context) error {
	if l == nil {
		return nil
	}
	select {
	case l.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lists) give() {
	if l != nil {
		<-l.turns
	}
}

// limitLists takes a turn for the time in which a snapshot is read and told: the
// pages that wait to be told are what takes memory. While it waits to be tried
// again after a failure, others have their turn.
func (l *lane) limitLists(ctx context.Context, s state) error {
	reads := false
	switch s := s.(type) {
	case listing:
		reads = true
	case connecting:
		reads = s.initial
	case replaying:
		reads = true
	}
	if !reads {
		l.stopListing()
		return nil
	}
	if l.listed {
		return nil
	}
	if err := l.lists.take(ctx); err != nil {
		return err
	}
	l.listed = true
	return nil
}

func (l *lane) stopListing() {
	if l.listed {
		l.listed = false
		l.lists.give()
	}
}
