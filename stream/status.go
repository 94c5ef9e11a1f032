package stream

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/pace"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// State is what a Stream is doing.
type State string

const (
	Idle         State = "Idle"         // no run has begun, or it has no namespaces to watch
	Listing      State = "Listing"      // reading a snapshot
	Streaming    State = "Streaming"    // a watch is open
	Resuming     State = "Resuming"     // briefly, between two watches
	Backoff      State = "Backoff"      // a request failed; the next try is at NextTry
	Stalled      State = "Stalled"      // the watch fell silent, and the server does not answer a probe
	Unauthorized State = "Unauthorized" // 401; the next try is at NextTry
	Forbidden    State = "Forbidden"    // 403; the next try is at NextTry
	Gone         State = "Gone"         // 404, as when a CRD is deleted; the next try is at NextTry
	Stopped      State = "Stopped"      // the last run has ended
)

// Status describes what a Stream is doing, since when and why. [Trace].StatusChanged receives each new State.
type Status struct {
	State State
	// Namespace is the namespace that the Status is about, or empty for the whole cluster.
	Namespace string
	// ResourceVersion is the version up to which everything has been delivered, including the event that the loop body
	// is handling. It is empty while a snapshot is being delivered.
	ResourceVersion string
	Since           time.Time // when State began
	// Cause is the error that led to Backoff, Stalled, Unauthorized, Forbidden, Gone or Stopped. It is nil if nothing
	// failed, and after Stop or a break.
	Cause error
	// Attempt counts the failures in a row. NextTry is when the next attempt begins, or began if it is under way. Both
	// are zero if nothing failed.
	Attempt int
	NextTry time.Time
	// Objects is the number of objects that exist, as far as the Stream knows.
	Objects int
	// Synced means that SYNCED has been delivered, and no GAP since. It keeps its value when the run ends.
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
	if s.Attempt > 0 {
		text += fmt.Sprintf(", %d failures, next try at %s", s.Attempt, s.NextTry.Format(time.TimeOnly))
	}
	if s.Cause != nil {
		text += ": " + s.Cause.Error()
	}
	return text
}

// bySeverity lists the states, the most severe last.
var bySeverity = []State{Stopped, Idle, Streaming, Resuming, Listing, Backoff, Stalled, Gone, Unauthorized, Forbidden}

// Status returns what the Stream is doing now.
func (s *Stream) Status() Status {
	if s == nil {
		return Status{State: Idle}
	}
	s.mu.Lock()
	workers, session := s.workers, s.session
	s.mu.Unlock()
	all := statusOf(workers)
	if session != nil {
		all.Checkpoint = session.Status()
	}
	return all
}

// Synced returns Status.Synced, and true, for packages of this module, which take a Stream or a Mux.
func (s *Stream) Synced(friend.Access) (all, whole bool) { return s.Status().Synced, true }

func statusOf(workers []*worker) Status {
	if len(workers) == 0 {
		return Status{State: Idle}
	}
	if len(workers) == 1 {
		return workers[0].report.get()
	}
	all := Status{State: Stopped}
	for i, w := range workers {
		one := w.report.get()
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
	p := checkpoint.Position{ResourceVersions: map[string]string{}, Partial: s.rest.Partial, Unclean: s.rest.Unclean}
	maps.Copy(p.ResourceVersions, s.rest.ResourceVersions)
	for _, w := range slices.Concat(s.workers, s.parked) {
		one := w.report.position()
		if w.namespace == "" && len(one.ResourceVersions) > 0 {
			clear(p.ResourceVersions)
		}
		maps.Copy(p.ResourceVersions, one.ResourceVersions)
		p.Partial, p.Rewound, p.Unclean = p.Partial || one.Partial, p.Rewound || one.Rewound, p.Unclean || one.Unclean
		for _, e := range w.index.All() {
			p.Objects = append(p.Objects, objectOf(e))
		}
	}
	return p
}

// report is the part of a worker that Status and Position read from other goroutines.
type report struct {
	mu     sync.Mutex
	status Status
	index  *index.Index
	// begun: something of this namespace, or the cluster, has been delivered.
	begun bool
	// partial: objects may exist that the index does not know.
	partial bool
	// unclean: more may have been delivered than the index knows.
	unclean bool
	// rewound: the server has gone back in time, and no SYNCED has been delivered since.
	rewound bool
}

// state reports any state but Waiting. During a retry it keeps the failure in the Status, unless something has
// succeeded.
func (r *report) state(t *Trace, s protocol.State, success bool) {
	m, _ := s.Recall()
	switch s := s.(type) {
	case protocol.Stopped:
		return // stopped reports it, after cleanup
	case protocol.Listing:
		if s.Token() == "" && m.Failures() > 0 && r.failing() {
			return
		}
	case protocol.Connecting, protocol.Probing:
		if m.Failures() > 0 && !success && r.failing() {
			return
		}
	}
	r.set(t, Status{State: stateOf(s), Synced: m.Current()})
}

func (r *report) failing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status.Cause != nil
}

// waiting reports a wait after a failure.
func (r *report) waiting(t *Trace, s protocol.Waiting, nextTry time.Time) {
	m, _ := s.Recall()
	r.set(t, Status{State: stateOf(s), Synced: m.Current(), Cause: s.Cause.Err, Attempt: s.Attempt, NextTry: nextTry})
}

// paced reports that a request waits because those of other Streams have failed, unless this Stream reports a failure
// of its own.
func (r *report) paced(t *Trace, m protocol.Memory, d pace.Delay) {
	state := Backoff
	switch {
	case d.Answer == pace.Unauthorized:
		state = Unauthorized
	case m.Failures() > 0 && r.failing():
		return
	}
	r.set(t, Status{State: state, Synced: m.Current(), Cause: d.Cause, Attempt: m.Failures(), NextTry: d.NextTry})
}

// stopped reports the end of the run.
func (r *report) stopped(t *Trace, err error) {
	if errors.Is(err, errLeft) || errors.Is(err, errStopped) {
		err = nil // the caller ended the run
	}
	r.set(t, Status{State: Stopped, Cause: err, Synced: r.get().Synced})
}

// set replaces the Status, and calls Trace.StatusChanged if the State has changed.
func (r *report) set(t *Trace, next Status) {
	r.mu.Lock()
	old := r.status
	next.Namespace, next.ResourceVersion, next.Since = old.Namespace, old.ResourceVersion, old.Since
	if next.State != old.State {
		next.Since = time.Now()
	}
	r.status = next
	r.mu.Unlock()
	if next.State != old.State {
		trace(t.StatusChanged, r.get())
	}
}

func (r *report) update(f func(*report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r)
}

// resourceVersion reports the version up to which everything has been delivered.
func (r *report) resourceVersion(rv string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.ResourceVersion, r.begun = rv, true
}

// setPosition reports the version up to which everything has been delivered, and what the index may lack.
func (r *report) setPosition(rv string, partial, unclean bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.ResourceVersion, r.partial, r.unclean = rv, partial, unclean
	r.begun = r.begun || rv != ""
}

// point returns the version that the sequence has reached, and whether the index may lack objects.
func (r *report) point() (rv string, partial bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status.ResourceVersion, r.partial
}

func (r *report) get() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Objects = r.index.Len()
	return s
}

// position returns what has been delivered, without the objects.
func (r *report) position() checkpoint.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := checkpoint.Position{
		ResourceVersions: map[string]string{}, Partial: r.partial, Rewound: r.rewound, Unclean: r.unclean,
	}
	if r.begun {
		p.ResourceVersions[r.status.Namespace] = r.status.ResourceVersion
	}
	return p
}

func stateOf(s protocol.State) State {
	switch s := s.(type) {
	case protocol.Listing, protocol.ReadingInitial:
		return Listing
	case protocol.Connecting:
		if s.Initial() || s.PendingSynced() {
			return Listing
		}
		return Resuming
	case protocol.Probing:
		return Resuming
	case protocol.Streaming:
		return Streaming
	case protocol.Waiting:
		return stateWaiting(s)
	}
	return Stopped
}

func stateWaiting(s protocol.Waiting) State {
	switch s.Cause.Class {
	case protocol.Unauthorized:
		return Unauthorized
	case protocol.Forbidden:
		return Forbidden
	case protocol.NotFound:
		return Gone
	}
	if s.Stalled() {
		return Stalled
	}
	return Backoff
}
