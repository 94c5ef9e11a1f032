package mux

import (
	"context"
	"iter"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Source is a sequence that a Mux merges with others. A *stream.Stream is one.
type Source interface {
	// Key tells the source from the others of the Mux. It is always the same.
	Key() string
	// Events is as that of a Stream: an error is the last thing it yields; it ends
	// soon when ctx does; it may be ranged over again, one range at a time. It is
	// ranged over in a goroutine of the source's own, which must not call the Mux's
	// Remove for its own key: that waits for it.
	Events(ctx context.Context) iter.Seq2[stream.Event, error]
}

// resumable is a Source that can go on where it was, and share what it uses, as a
// *stream.Stream can.
type resumable interface {
	Source
	EventsWith(context.Context, stream.Range) iter.Seq2[stream.Event, error]
	Position() checkpoint.Position
}

// reporting is a Source whose Status says what it is doing.
type reporting interface{ Status() stream.Status }

// source is one of a Mux. What follows the first three fields is guarded by Mux.mu.
type source struct {
	Source
	key     string
	options SourceOptions

	removed bool
	live    bool                    // it has a goroutine, with
	stop    context.CancelCauseFunc // which ends it, and
	done    <-chan struct{}         // which is closed when it has ended

	queue  queue
	waits  bool          // it is among those that have something queued
	parked *item         // that does not fit into the queue
	room   chan struct{} // what was parked has been queued; of capacity one

	state  state
	began  time.Time // telling
	left   time.Time // when it ended
	told   bool      // something, in this range
	anew   bool      // it can't go on from its Position
	over   bool      // it has ended by itself
	err    error     // that it has ended with
	failed int       // times in a row
	next   time.Time // when it is tried again

	synced              bool   // as the loop knows it
	coalesced, vanished uint64 // in this range
}

// state is what a source does.
type state int

const (
	idle    state = iota // no range has run since it was added
	telling              // or about to
	pausing              // until it is tried again
	stopped
)

// renew makes it as it is before a range.
func (s *source) renew() {
	if s.options.Overflow == Latest {
		s.queue = newLatestQueue(&s.coalesced, &s.vanished)
	} else {
		s.queue = &ring{}
	}
	s.waits, s.parked = false, nil
	s.room = make(chan struct{}, 1)
	s.began, s.told, s.anew, s.over = time.Time{}, false, false, false
	s.err, s.failed, s.next = nil, 0, time.Time{}
	s.synced, s.coalesced, s.vanished = false, 0, 0
}
