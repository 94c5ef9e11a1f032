package stream

import (
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// State says what a Stream is doing.
type State string

const (
	Idle         State = "Idle"         // no range over Events is running
	Listing      State = "Listing"      // reading a snapshot
	Streaming    State = "Streaming"    // a watch is open
	Resuming     State = "Resuming"     // between two watches, for a moment
	Backoff      State = "Backoff"      // a request failed; it is tried again at NextTry
	Stalled      State = "Stalled"      // the watch fell silent, and the server does not answer why
	Unauthorized State = "Unauthorized" // 401; tried again at NextTry
	Forbidden    State = "Forbidden"    // 403; tried again at NextTry
	Gone         State = "Gone"         // 404, as when a CRD is deleted; tried again at NextTry
	Stopped      State = "Stopped"      // the last range has ended
)

// Status is what a Stream is doing, since when and why.
type Status struct {
	State State
	// Namespace that it is about, empty for the whole cluster.
	Namespace string
	// ResourceVersion is that up to which everything has been told, the event that is
	// being handled too. It is empty while a snapshot is being told.
	ResourceVersion string
	Since           time.Time // when State began
	// Cause is the error that led to a Backoff, Stalled, Unauthorized, Forbidden,
	// Gone or Stopped. It is nil where nothing is wrong, and after a Stop or a break.
	Cause error
	// Attempt counts the failures in a row, NextTry is when the next attempt begins,
	// or began if it is under way. They are zero where nothing is wrong.
	Attempt int
	NextTry time.Time
	// Objects is how many are known to the index.
	Objects int
	// Synced says that SYNCED has been told and no gap is open (or was, at the end).
	Synced bool
	// Checkpoint says how far acks and commits are behind. Its Key is empty where there
	// is no checkpoint.
	Checkpoint checkpoint.Status
	// Namespaces holds one Status each where several namespaces are watched; the
	// outer one is then that of the namespace that is worst off.
	Namespaces []Status
}

// worst says which of two states wants more attention, by their order here.
var worst = []State{Stopped, Idle, Streaming, Resuming, Listing, Backoff, Stalled, Gone, Unauthorized, Forbidden}

// Status returns what the Stream is doing at this moment.
func (s *Stream) Status() Status {
	s.mu.Lock()
	lanes, session := s.lanes, s.session
	s.mu.Unlock()
	all := statusOf(lanes)
	if session != nil {
		all.Checkpoint = session.Status()
	}
	return all
}

func statusOf(lanes []*lane) Status {
	if len(lanes) == 0 {
		return Status{State: Idle}
	}
	if len(lanes) == 1 {
		return lanes[0].report.get()
	}
	all := Status{State: Stopped}
	for i, l := range lanes {
		one := l.report.get()
		objects, synced := all.Objects+one.Objects, one.Synced && (i == 0 || all.Synced)
		rank, highest := slices.Index(worst, one.State), slices.Index(worst, all.State)
		each := append(all.Namespaces, one)
		if rank > highest || i == 0 {
			all = one
			all.Namespace, all.ResourceVersion = "", ""
		}
		all.Objects, all.Synced, all.Namespaces = objects, synced, each
	}
	return all
}

// Position returns how far the sequence has been told, for From. It is to be
// called in the loop body, where it includes the event that is being handled, or
// when no range is running: then it is where the last one ended. (Before the first
// SYNCED of a range that began at Now it is worth nothing: From it, everything is
// told.) It takes time and memory in proportion to the objects that exist.
func (s *Stream) Position() checkpoint.Position {
	s.mu.Lock()
	lanes, rest := s.lanes, s.rest
	s.mu.Unlock()
	p := checkpoint.Position{ResourceVersions: map[string]string{}}
	for _, l := range lanes {
		l.report.position(&p)
	}
	rest.position(&p, lanes)
	return p
}
