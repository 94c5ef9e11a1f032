package stream

import (
	"errors"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// report is what a lane lets others see of it.
type report struct {
	mu     sync.Mutex
	status Status
	index  *index // nil with IndexNone
	// partial: there are objects that the index does not know.
	partial bool
	// rewound: the server has gone back in time, and no SYNCED was told since.
	rewound bool
	floors  *floors // of the lane
}

// state reports a state that is no wait. While it is being tried again after a
// failure, the failure stands, unless something has succeeded.
func (r *report) state(t *Trace, s state, success bool) {
	m, _ := memoryOf(s)
	switch s := s.(type) {
	case stopped:
		return // the end is reported once nothing is left of it
	case listing:
		if len(s.tokens) == 0 && m.failures > 0 && r.failing() {
			return
		}
	case connecting, probing:
		if m.failures > 0 && !success && r.failing() {
			return
		}
	}
	r.set(t, Status{State: stateOf(s), Synced: m.current})
}

func (r *report) failing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status.Cause != nil
}

// waiting reports a wait.
func (r *report) waiting(t *Trace, s waiting, nextTry time.Time) {
	m, _ := memoryOf(s)
	r.set(t, Status{State: stateOf(s), Synced: m.current, Cause: s.cause, Attempt: s.attempt, NextTry: nextTry})
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
		t.statusChanged(r.get())
	}
}

// synced reports that SYNCED is told.
func (r *report) synced() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Synced, r.rewound = true, false
}

// withdrawn reports that the server has gone back in time.
func (r *report) withdrawn() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rewound = true
}

// known reports whether the index knows all that there is.
func (r *report) known(everything bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.partial = !everything
}

// resourceVersion reports up to which everything has been told.
func (r *report) resourceVersion(rv string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.ResourceVersion = rv
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
		s.Objects = r.index.len()
	}
	return s
}

// position adds what has been told to p.
func (r *report) position(p *checkpoint.Position) {
	r.mu.Lock()
	rv, namespace, index, floors := r.status.ResourceVersion, r.status.Namespace, r.index, r.floors
	p.Partial, p.Rewound = p.Partial || r.partial, p.Rewound || r.rewound
	r.mu.Unlock()
	switch {
	case floors != nil && rv != "":
		maps.Copy(p.ResourceVersions, floors.versions.Past(rv))
	case floors != nil:
		maps.Copy(p.ResourceVersions, floors.versions)
	case rv != "":
		p.ResourceVersions[namespace] = rv
	}
	if index == nil {
		return
	}
	for _, i := range index.allGhosts() {
		p.Objects = append(p.Objects, i.unacked())
	}
	for k := range index.all() {
		p.Objects = append(p.Objects, k.object())
	}
}

func stateOf(s state) State {
	switch s := s.(type) {
	case listing, replaying:
		return Listing
	case connecting:
		if s.initial || s.owed {
			return Listing
		}
		return Resuming
	case probing:
		return Resuming
	case streaming:
		return Streaming
	case waiting:
		return stateWaiting(s)
	}
	return Stopped
}

func stateWaiting(s waiting) State {
	switch {
	case apierrors.IsUnauthorized(s.cause):
		return Unauthorized
	case apierrors.IsForbidden(s.cause):
		return Forbidden
	case apierrors.IsNotFound(s.cause):
		return Gone
	}
	if p, ok := s.next.(probing); ok && p.stalled {
		return Stalled
	}
	return Backoff
}

// memoryOf is what a state remembers; one that has stopped remembers nothing.
func memoryOf(s state) (memory, bool) {
	switch s := s.(type) {
	case listing:
		return s.memory, true
	case connecting:
		return s.memory, true
	case replaying:
		return s.memory, true
	case streaming:
		return s.memory, true
	case probing:
		return s.memory, true
	case waiting:
		return memoryOf(s.next)
	}
	return memory{}, false
}
