package stream

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
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
var bySeverity = []State{Stopped, Idle, Streaming, Resuming, Listing, Backoff, Stalled, Gone, Unauthorized, Forbidden}

// Status returns what the Stream is doing at this moment.
func (s *Stream) Status() Status {
	s.mu.Lock()
	workers, session := s.workers, s.session
	s.mu.Unlock()
	all := statusOf(workers)
	if session != nil {
		all.Checkpoint = session.Status()
	}
	return all
}

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

// Position returns how far the sequence has been told, for From. It is to be
// called in the loop body, where it includes the event that is being handled, or
// when no range is running: then it is where the last one ended. (Before the first
// SYNCED of a range that began at Now it is worth nothing: From it, everything is
// told.) It takes time and memory in proportion to the objects that exist.
func (s *Stream) Position() checkpoint.Position {
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
		if w.index != nil {
			for i := range w.index.All() {
				p.Objects = append(p.Objects, objectOf(i))
			}
		}
	}
	return p
}

// report is what a lane lets others see of it.
type report struct {
	mu     sync.Mutex
	status Status
	index  *index.Index // nil with NoIndex
	// begun: something of this namespace, or the cluster, has been told.
	begun bool
	// partial: there are objects that the index does not know.
	partial bool
	// unclean: more may have been delivered than the index knows.
	unclean bool
	// rewound: the server has gone back in time, and no SYNCED was told since.
	rewound bool
}

// state reports a state that is no wait. While it is being tried again after a
// failure, the failure stands, unless something has succeeded.
func (r *report) state(t *Trace, s protocol.State, success bool) {
	m, _ := s.Recall()
	switch s := s.(type) {
	case protocol.Stopped:
		return // the end is reported once nothing is left of it
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

// waiting reports a wait.
func (r *report) waiting(t *Trace, s protocol.Waiting, nextTry time.Time) {
	m, _ := s.Recall()
	r.set(t, Status{State: stateOf(s), Synced: m.Current(), Cause: s.Cause.Err, Attempt: s.Attempt, NextTry: nextTry})
}

// stopped reports the end.
func (r *report) stopped(t *Trace, err error) {
	if errors.Is(err, errLeft) || errors.Is(err, errStopped) {
		err = nil // as somebody wanted
	}
	r.set(t, Status{State: Stopped, Cause: err, Synced: r.get().Synced})
}

// set reports next, and tells of it if its State is another one.
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

// resourceVersion reports up to which everything has been told.
func (r *report) resourceVersion(rv string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.ResourceVersion, r.begun = rv, true
}

// reached reports that as well, and what the index lacks.
func (r *report) setPosition(rv string, partial, unclean bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.ResourceVersion, r.partial, r.unclean = rv, partial, unclean
	r.begun = r.begun || rv != ""
}

// lacks says whether an earlier run may have delivered objects that neither the index nor
// the position knows.
func (r *report) isUnclean() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unclean
}

// point is where the sequence is: at which version, and with how much of it known.
func (r *report) point() (rv string, partial bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status.ResourceVersion, r.partial
}

func (r *report) get() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	if r.index != nil {
		s.Objects = r.index.Len()
	}
	return s
}

// position is what has been delivered, without objects.
func (r *report) position() checkpoint.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := checkpoint.Position{ResourceVersions: map[string]string{}, Partial: r.partial, Rewound: r.rewound, Unclean: r.unclean}
	if r.begun {
		p.ResourceVersions[r.status.Namespace] = r.status.ResourceVersion
	}
	return p
}

func stateOf(s protocol.State) State {
	switch s := s.(type) {
	case protocol.Listing, protocol.Replaying:
		return Listing
	case protocol.Connecting:
		if s.Streamed() || s.PendingSynced() {
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
