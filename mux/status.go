package mux

import (
	"maps"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
)

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
	// how many were of objects that came and went, or were told all over again, before
	// the loop was told (Latest).
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
		st := SourceStatus{Key: key, State: s.shown(), Synced: s.synced, Queued: s.queue.events(), Bytes: s.queue.bytes(),
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
