package mux

import (
	"maps"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
)

// Status is what a Mux and its sources are doing.
type Status struct {
	AllSynced bool           // there are Sources, and all of them are Synced
	Queued    int            // events that wait for the loop
	Bytes     int64          // their estimated size in memory
	Sources   []SourceStatus // sorted by key
}

// SourceStatus is what one source is doing.
type SourceStatus struct {
	Key string
	// State is Stream.State if Stream is not nil. Otherwise a source that runs is Listing until it is Synced, then
	// Streaming. A source that waits to be retried is in Backoff, and so is one that runs although its Stream is
	// Stopped: it will start the Stream again, as sources of package follow do.
	State stream.State
	// Stream is the result of the source's Status method, or nil if it has none with the signature of Stream.Status.
	Stream *stream.Status
	// Synced reports that the loop has received SYNCED, and no GAP or error since.
	Synced bool
	// Queued and Bytes are the source's share of what waits.
	Queued int
	Bytes  int64
	// Coalesced counts the events that became part of a newer one in this run, Vanished those of objects that came
	// and went before the loop received them. Both are zero without Latest.
	Coalesced, Vanished uint64
	// Err is the error that the source has ended with. It is set until the source is started again.
	Err error
	// Attempt counts the failures in a row, and NextTry is the time of the next attempt. Both are zero unless the
	// source waits to be retried.
	Attempt int
	NextTry time.Time
}

// Status returns what the Mux is doing at this moment, in time proportional to the number of sources.
func (m *Mux) Status() Status {
	if !m.made() {
		return Status{}
	}
	all, sources := m.snapshot()
	for i := range all.Sources {
		s, src := &all.Sources[i], sources[i]
		r, ok := src.(reporting)
		if !ok {
			continue
		}
		st := r.Status()
		s.Stream = &st
		switch {
		case !s.NextTry.IsZero():
		case st.State == stream.Stopped && (s.State == stream.Listing || s.State == stream.Streaming):
			s.State = stream.Backoff
		default:
			s.State = st.State
		}
	}
	return all
}

// snapshot returns what the Mux itself knows. It calls no source.
func (m *Mux) snapshot() (all Status, sources []Source) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all.AllSynced = m.allSynced()
	for _, key := range slices.Sorted(maps.Keys(m.sources)) {
		s := m.sources[key]
		waiting := s.buffer.load()
		st := SourceStatus{
			Key: key, State: s.state(), Synced: s.progress.synced, Queued: waiting.events, Bytes: waiting.bytes,
			Coalesced: s.progress.coalesced, Vanished: s.progress.vanished, Err: s.failure.err,
		}
		if s.buffer.blocked != nil {
			st.Queued++
			st.Bytes += s.buffer.blocked.size
		}
		if s.worker.state == backingOff {
			st.Attempt, st.NextTry = s.failure.inARow, s.failure.nextTry
		}
		all.Queued += st.Queued
		all.Bytes += st.Bytes
		all.Sources, sources = append(all.Sources, st), append(sources, s.Source)
	}
	return all, sources
}

// state returns the state of a source that does not report one.
func (s *source) state() stream.State {
	switch {
	case s.worker.state == idle:
		return stream.Idle
	case s.worker.state == backingOff:
		return stream.Backoff
	case s.worker.state == stopped:
		return stream.Stopped
	case s.progress.synced:
		return stream.Streaming
	}
	return stream.Listing
}
