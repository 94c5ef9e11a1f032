package stream

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
)

// State is what a Stream is doing. The value of each is its name.
//
// In state Unordered the server does not keep the rules about resourceVersions (Kubernetes API conventions): its lists
// have none, or versions do not grow, and Cause says what was seen. What the watch sends is delivered. What it does not
// is found by lists: one at once, the next one half a minute later, and so on up to one in five minutes; the next is
// due at NextTry. Each is a GAP ([GapUnordered], [GapUnversioned]). The state ends when three watches have begun
// without new evidence. To act on it: ask whoever runs the API server, often an aggregated one.
type State string

const (
	Idle         State = State(sequence.Idle)         // no run has begun, or it has no namespaces to watch
	Listing      State = State(sequence.Listing)      // reading a snapshot
	Streaming    State = State(sequence.Streaming)    // a watch is open
	Resuming     State = State(sequence.Resuming)     // briefly, between two watches
	Backoff      State = State(sequence.Backoff)      // a request failed; the next try is at NextTry
	Stalled      State = State(sequence.Stalled)      // watches are silent, and a list fails or shows changes
	Unordered    State = State(sequence.Unordered)    // a watch is open, but the server breaks the rules: see below
	Unauthorized State = State(sequence.Unauthorized) // 401; the next try is at NextTry
	Forbidden    State = State(sequence.Forbidden)    // 403; the next try is at NextTry
	Gone         State = State(sequence.Gone)         // 404, as when a CRD is deleted; the next try is at NextTry
	Stopped      State = State(sequence.Stopped)      // the last run has ended
)

// Status describes what a Stream is doing, since when and why. [Trace].StatusChanged receives each new State.
type Status struct {
	State State
	// Namespace is the namespace that the Status is about, or empty for the whole cluster.
	Namespace string
	// ResourceVersion is the version up to which everything has been delivered, including the event that the loop body
	// is handling. It is empty while a snapshot is being delivered, and while a list is due because the server's
	// versions have proven wrong.
	ResourceVersion string
	Since           time.Time // when State began
	// Cause is the error that led to Backoff, Stalled, Unordered, Unauthorized, Forbidden, Gone or Stopped. It is nil
	// if nothing failed, and after Stop or a break.
	Cause error
	// Attempt counts the failures in a row. NextTry is when the next attempt begins, or began if it is under way. Both
	// are zero if nothing failed. In state Unordered NextTry is when the next list is read, or zero; in state
	// Stalled it may be when the server is next asked for all objects, although a watch is open.
	Attempt int
	NextTry time.Time
	// Objects is the number of objects that exist, as far as the Stream knows.
	Objects int
	// Synced means that SYNCED has been delivered, and no GAP since, nor an event that leads to one. It keeps its value
	// when the run ends.
	Synced bool
	// Checkpoint reports how far acks and commits are behind. Its Key is empty without a checkpoint.
	Checkpoint checkpoint.Status
	// Namespaces has a Status for each namespace if several are watched. The other fields are then those of the
	// namespace in the most severe State, Objects is the total, and Synced means that all are.
	Namespaces []Status
}

// String describes the Status in one line, without its Namespaces: "Streaming @1021", or "Backoff @1021, 4 failures,
// next try at 15:04:05: the Cause". The form may change.
func (s Status) String() string {
	text := string(s.State)
	if s.Namespace != "" {
		text += " in " + s.Namespace
	}
	if s.ResourceVersion != "" {
		text += " @" + s.ResourceVersion
	}
	switch {
	case s.Attempt > 0:
		text += fmt.Sprintf(", %d failures, next try at %s", s.Attempt, s.NextTry.Format(time.TimeOnly))
	case !s.NextTry.IsZero():
		text += ", next list at " + s.NextTry.Format(time.TimeOnly)
	}
	if s.Cause != nil {
		text += ": " + s.Cause.Error()
	}
	return text
}

// bySeverity lists the states, the most severe last.
var bySeverity = []State{Stopped, Idle, Streaming, Resuming, Listing, Unordered, Backoff, Stalled, Gone, Unauthorized,
	Forbidden}

// Status returns what the Stream is doing now.
func (s *Stream) Status() Status {
	if s == nil {
		return Status{State: Idle}
	}
	s.mu.Lock()
	workers, session := s.last.workers, s.last.session
	s.mu.Unlock()
	all := statusOfAll(workers)
	if session != nil {
		all.Checkpoint = session.Status()
	}
	return all
}

// Synced returns Status.Synced, and true, for packages of this module, which take a Stream or a Mux.
func (s *Stream) Synced(friend.Access) (all, whole bool) { return s.Status().Synced, true }

func statusOfAll(workers []*sequence.Worker) Status {
	if len(workers) == 0 {
		return Status{State: Idle}
	}
	if len(workers) == 1 {
		return statusOf(workers[0].Status())
	}
	all := Status{State: Stopped}
	for i, w := range workers {
		one := statusOf(w.Status())
		objects, synced := all.Objects+one.Objects, one.Synced && (i == 0 || all.Synced)
		rank, highest := slices.Index(bySeverity, one.State), slices.Index(bySeverity, all.State)
		each := append(all.Namespaces, one)
		if rank > highest || i == 0 {
			all = one
			all.Namespace, all.ResourceVersion = "", ""
		}
		all.Objects, all.Synced, all.Namespaces = objects, synced, each
	}
	return all
}

// Position returns how far the sequence has been delivered, for [From]. Call it in the loop body, where it includes the
// event that the body is handling, or between runs, where it is the end of the last run. It takes time and memory in
// proportion to the number of objects that exist.
//
// A Position taken before the first SYNCED of a run that began at [Now] is of no use: a run from it delivers
// everything.
func (s *Stream) Position() checkpoint.Position {
	if s == nil {
		return checkpoint.Position{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.last.rest
	p := checkpoint.Position{ResourceVersions: map[string]string{}, Partial: rest.Partial, Unclean: rest.Unclean}
	maps.Copy(p.ResourceVersions, rest.ResourceVersions)
	for _, w := range slices.Concat(s.last.workers, s.last.parked) {
		one := w.Position()
		if w.Namespace() == "" && len(one.ResourceVersions) > 0 {
			clear(p.ResourceVersions)
		}
		maps.Copy(p.ResourceVersions, one.ResourceVersions)
		p.Partial, p.Rewound, p.Unclean = p.Partial || one.Partial, p.Rewound || one.Rewound, p.Unclean || one.Unclean
		if p.Objects == nil {
			p.Objects = one.Objects // the only worker's, mostly: they take much memory
		} else {
			p.Objects = append(p.Objects, one.Objects...)
		}
	}
	return p
}
