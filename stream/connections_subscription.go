package stream

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// subscription is one lane's part of an upstream: to the lane it is a watch.
// Where it says so, methods may be called on nil: the watch is the lane's own.
type subscription struct {
	up      *upstream
	seat    *seat
	opened  bool   // by the one whose it is
	start   string // all that happened up to it has been told; empty for who has opened the watch
	events  chan watch.Event
	pending atomic.Int32 // events that have not been taken
	cut     atomic.Bool  // it was ended, and the watch was not, or in a way that says nothing here

	// Under up.mu.
	skips  bool // the upstream may still tell what is not newer than start
	late   bool // its queue was full, and is not half empty again
	closed bool
	left   bool
}

// ResultChan is closed when the watch ends, and after Stop.
func (s *subscription) ResultChan() <-chan watch.Event { return s.events }

// Stop leaves. The last one ends the watch and waits for it.
func (s *subscription) Stop() {
	u := s.up
	u.all.mu.Lock()
	u.mu.Lock()
	if s.left {
		u.mu.Unlock()
		u.all.mu.Unlock()
		return
	}
	s.left = true
	s.close()
	u.drop(s)
	last := len(u.subs) == 0 && !u.left
	if last {
		u.left = true
		u.bar()
		u.all.remove(u)
		close(u.over)
	}
	u.mu.Unlock()
	u.all.mu.Unlock()
	if last {
		<-u.gone
	}
}

// took notes that an event was taken. It may be called on nil.
func (s *subscription) took() {
	if s == nil {
		return
	}
	n := int(s.pending.Add(-1))
	if (n <= aheadAlone/2 || n == s.low()) && s.up.waits.CompareAndSwap(true, false) {
		poke(s.up.room)
	}
}

// low is how many events one who was late may be behind again.
func (s *subscription) low() int { return cap(s.events) / 2 }

// suspect says that the watch seems to be dead. It may be called on nil.
func (s *subscription) suspect() {
	if s == nil {
		return
	}
	s.up.mu.Lock()
	defer s.up.mu.Unlock()
	s.up.bar()
}

// wasCut may be called on nil.
func (s *subscription) wasCut() bool { return s != nil && s.cut.Load() }

// cutOff ends it, under up.mu.
func (s *subscription) cutOff() {
	s.cut.Store(true)
	s.close()
}

func (s *subscription) close() {
	if !s.closed {
		s.closed = true
		close(s.events)
	}
}

// copyOf is ev with an object of its own.
func copyOf(ev watch.Event) watch.Event {
	switch o := ev.Object.(type) {
	case nil:
	case *unstructured.Unstructured:
		if o != nil {
			ev.Object = anyCopy(o)
		}
	default:
		ev.Object = o.DeepCopyObject()
	}
	return ev
}

// anyCopy copies also what no server can have sent, but somebody's own client.
func anyCopy(o *unstructured.Unstructured) (c *unstructured.Unstructured) {
	defer func() {
		if recover() != nil {
			c = ownCopy(o)
		}
	}()
	return o.DeepCopy()
}
