package sequence

import (
	"errors"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/pace"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// State is what a Worker is doing, derived from its protocol.State. Package stream documents the values.
type State string

const (
	Idle         State = "Idle"
	Listing      State = "Listing"
	Streaming    State = "Streaming"
	Resuming     State = "Resuming"
	Backoff      State = "Backoff"
	Stalled      State = "Stalled"
	Unordered    State = "Unordered"
	Unauthorized State = "Unauthorized"
	Forbidden    State = "Forbidden"
	Gone         State = "Gone"
	Stopped      State = "Stopped"
)

// Status is what a stream.Status has of one namespace.
type Status struct {
	State           State
	Namespace       string
	ResourceVersion string
	Since           time.Time
	Cause           error
	Attempt         int
	NextTry         time.Time
	Objects         int
	Synced          bool
}

// report has what Status and Position show of a Worker, to any goroutine.
type report struct {
	namespace string
	changed   func(Status) // may be nil
	objects   func() int   // how many the index has

	mu     sync.Mutex
	status Status
	extent extent
}

// extent says how much has been delivered, together with Status.ResourceVersion.
type extent struct {
	begun   bool // something of this namespace, or the cluster, has been delivered
	partial bool // objects may exist that the index does not know
	unclean bool // more may have been delivered than the index knows
	rewound bool // the server has gone back in time, and no SYNCED has been delivered since
}

// restart makes a report for a new run that begins at a version.
func (r *report) restart(version string, at extent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at.begun = at.begun || version != ""
	r.status = Status{State: Idle, Namespace: r.namespace, ResourceVersion: version, Since: time.Now()}
	r.extent = at
}

// state reports any State but Waiting. During a retry it keeps the failure in the Status, unless something has
// succeeded. A doubted sequence is listed at a time.
func (r *report) state(s protocol.State, success bool, list time.Time) {
	m, _ := protocol.Recall(s)
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
	next := Status{State: stateOf(s), Synced: m.Current(), NextTry: list}
	switch next.State {
	case Stalled:
		next.Cause = m.Server().Blind()
	case Unordered:
		next.Cause = protocol.Doubts(&m)
	}
	r.set(next)
}

func (r *report) failing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status.Cause != nil
}

// waiting reports a wait after a failure.
func (r *report) waiting(s protocol.Waiting, nextTry time.Time) {
	m, _ := protocol.Recall(s)
	r.set(Status{State: stateOf(s), Synced: m.Current(), Cause: s.Cause.Err, Attempt: s.Attempt, NextTry: nextTry})
}

// paced reports that a request waits because those of other Streams have failed, unless this Stream reports a failure
// of its own.
func (r *report) paced(m protocol.Memory, d pace.Delay) {
	state := Backoff
	switch {
	case d.Answer == pace.Unauthorized:
		state = Unauthorized
	case m.Failures() > 0 && r.failing():
		return
	}
	r.set(Status{State: state, Synced: m.Current(), Cause: d.Cause, Attempt: m.Failures(), NextTry: d.NextTry})
}

// stopped reports the end of the run.
func (r *report) stopped(err error) {
	if errors.Is(err, ErrLeft) || errors.Is(err, ErrStopped) {
		err = nil // the caller ended the run
	}
	r.set(Status{State: Stopped, Cause: err, Synced: r.get().Synced})
}

// set replaces the Status, and calls the hook if the State has changed.
func (r *report) set(next Status) {
	r.mu.Lock()
	old := r.status
	next.Namespace, next.ResourceVersion, next.Since = old.Namespace, old.ResourceVersion, old.Since
	if next.State != old.State {
		next.Since = time.Now()
	}
	r.status = next
	r.mu.Unlock()
	if next.State != old.State {
		hook(r.changed, r.get())
	}
}

// synced reports that SYNCED is being delivered.
func (r *report) synced() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Synced, r.extent.rewound = true, false
}

// rewound reports that the server has gone back in time.
func (r *report) rewound() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.extent.rewound = true
}

// resourceVersion reports the version up to which everything has been delivered; empty within a snapshot.
func (r *report) resourceVersion(rv string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.ResourceVersion, r.extent.begun = rv, true
}

// position reports the version up to which everything has been delivered, and what the index may lack.
func (r *report) position(rv string, partial, unclean bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.ResourceVersion, r.extent.partial, r.extent.unclean = rv, partial, unclean
	r.extent.begun = r.extent.begun || rv != ""
}

func (r *report) get() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Objects = r.objects()
	return s
}

// point returns the version that the sequence has reached, and whether the index may lack objects.
func (r *report) point() (rv string, partial bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status.ResourceVersion, r.extent.partial
}

// unclean reports whether more may have been delivered than the index knows.
func (r *report) unclean() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.extent.unclean
}

// delivered returns what has been delivered, without the objects.
func (r *report) delivered() checkpoint.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := checkpoint.Position{
		ResourceVersions: map[string]string{}, Partial: r.extent.partial, Rewound: r.extent.rewound,
		Unclean: r.extent.unclean,
	}
	if r.extent.begun {
		p.ResourceVersions[r.namespace] = r.status.ResourceVersion
	}
	return p
}

func stateOf(s protocol.State) State {
	if m, ok := protocol.Recall(s); ok && m.Server().Blind() != nil {
		if _, waiting := s.(protocol.Waiting); !waiting {
			return Stalled
		}
	}
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
		if s.Doubted() || s.Memory.Server().Suspect() || s.Memory.Server().Versionless() {
			return Unordered
		}
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
