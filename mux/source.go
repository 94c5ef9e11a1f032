package mux

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/run"
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

// resumable is a Source that can go on where it was, as a *stream.Stream can.
type resumable interface {
	Source
	Position() checkpoint.Position
}

// withOptions returns Events with options for one run, for a source that is a Stream or embeds one, else nil.
var withOptions = friend.StreamEvents.(func(any) func(context.Context, run.Options) iter.Seq2[stream.Event, error])

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
		s.queue = &blockQueue{}
	}
	s.waits, s.parked = false, nil
	s.room = make(chan struct{}, 1)
	s.began, s.told, s.anew, s.over = time.Time{}, false, false, false
	s.err, s.failed, s.next = nil, 0, time.Time{}
	s.synced, s.coalesced, s.vanished = false, 0, 0
}

// Status is what a Mux and its sources are doing.
type Status struct {
	// Followed is what is known of what Follow follows, sorted by resource and name.
	// It is empty for other Muxes.
	Followed []Followed
	// Discovery is why it is not known what is served, or not all of it, where Follow
	// finds that out. It is nil while everything is known.
	Discovery error
	// AllSynced is what Mux.AllSynced returns.
	AllSynced bool
	// Queued is how many events wait for the loop, and Bytes how large they are as
	// JSON, more or less.
	Queued int
	Bytes  int64
	// Sources are sorted by their keys.
	Sources []SourceStatus
}

// SourceStatus is what one source is doing.
type SourceStatus struct {
	Key string
	// State is that of its Status, if it has one. One that has none is Listing until
	// it is Synced, and then Streaming. While it waits to be tried again after an error
	// (Retry), it is Backoff.
	State stream.State
	// Stream is the Status of a source that has one, as a *stream.Stream does, else
	// nil.
	Stream *stream.Status
	// Synced says that SYNCED has been told to the loop, and no GAP since. It is false
	// once the source has failed.
	Synced bool
	// Queued and Bytes are its share of what waits.
	Queued int
	Bytes  int64
	// Coalesced is how many events became part of a newer one in this range, Vanished
	// how many were of objects that came and went before the loop was told (Latest).
	Coalesced, Vanished uint64
	// Err is the error that it has ended with, also while it waits to be tried again,
	// and nil while it is told.
	Err error
	// Attempt counts the failures in a row, NextTry is when it is tried again. They
	// are zero where nothing is wrong.
	Attempt int
	NextTry time.Time
}

// Status returns what is being done at this moment. It takes time in proportion to
// the number of sources.
func (m *Mux) Status() Status {
	all, sources := m.snapshot()
	for i := range all.Sources {
		s, src := &all.Sources[i], sources[i]
		r, ok := src.(reporting)
		if !ok {
			continue
		}
		st := r.Status()
		s.Stream = &st
		if s.NextTry.IsZero() {
			s.State = st.State
		}
	}
	if m.status != nil {
		m.status(&all)
	}
	return all
}

// snapshot is what the Mux itself knows.
func (m *Mux) snapshot() (all Status, sources []Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all.AllSynced = len(m.sources) > 0 && m.unsynced == 0
	for _, key := range slices.Sorted(maps.Keys(m.sources)) {
		s := m.sources[key]
		waiting := s.queue.load()
		st := SourceStatus{Key: key, State: s.shown(), Synced: s.synced, Queued: waiting.events, Bytes: waiting.bytes,
			Coalesced: s.coalesced, Vanished: s.vanished, Err: s.err}
		if s.parked != nil {
			st.Queued++
			st.Bytes += s.parked.size
		}
		if s.state == pausing {
			st.Attempt, st.NextTry = s.failed, s.next
		}
		all.Queued += st.Queued
		all.Bytes += st.Bytes
		all.Sources, sources = append(all.Sources, st), append(sources, s.Source)
	}
	return all, sources
}

func (s *source) shown() stream.State {
	switch {
	case s.state == idle:
		return stream.Idle
	case s.state == pausing:
		return stream.Backoff
	case s.state == stopped:
		return stream.Stopped
	case s.synced:
		return stream.Streaming
	}
	return stream.Listing
}
