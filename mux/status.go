package mux

import (
	"maps"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
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
	// Synced reports that the loop has received SYNCED, and no GAP or error since. A source that embeds a Mux is Synced
	// when the loop has received that of all of its sources.
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
	return m.StatusOf(friend.Access{}, nil)
}

// StatusOf returns the Status of the sources of a group only, for package follow; nil means all sources.
func (m *Mux) StatusOf(_ friend.Access, of *host.Group) Status {
	if !m.made() {
		return Status{}
	}
	all, sources := m.sources.status(of)
	for i := range all.Sources {
		s, src := &all.Sources[i], sources[i]
		if m, ok := src.(merging); ok && s.Synced {
			s.Synced, _ = m.Synced(friend.Access{})
			if all.AllSynced = all.AllSynced && s.Synced; !s.Synced && s.State == stream.Streaming {
				s.State = stream.Listing
			}
		}
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

// status returns what the Mux itself knows, and the sources in the same order; only those of a group, unless that is
// nil. It calls no source. Unlike the other methods it locks mu itself.
func (all *sourceSet) status(of *host.Group) (st Status, from []Source) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(all.byKey)) {
		s := all.byKey[key]
		if of != nil && s.group != of {
			continue
		}
		one := s.status()
		st.AllSynced = one.Synced && (st.AllSynced || len(st.Sources) == 0)
		st.Queued += one.Queued
		st.Bytes += one.Bytes
		st.Sources, from = append(st.Sources, one), append(from, s.from)
	}
	return st, from
}

// status returns what the Mux itself knows of the source.
func (s *source) status() SourceStatus {
	waiting := s.buffer.load()
	st := SourceStatus{
		Key: s.key, State: s.worker.state, Synced: s.isSynced(), Queued: waiting.events, Bytes: waiting.bytes,
		Coalesced: s.buffer.latest.coalesced, Vanished: s.buffer.latest.vanished, Err: s.failure.err,
	}
	if s.buffer.blocked != nil {
		st.Queued++
		st.Bytes += s.buffer.blocked.size
	}
	switch {
	case st.State == stream.Backoff:
		st.Attempt, st.NextTry = s.failure.inARow, s.failure.nextTry
	case st.State == stream.Listing && st.Synced:
		st.State = stream.Streaming
	}
	return st
}
