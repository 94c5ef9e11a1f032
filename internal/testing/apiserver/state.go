package apiserver

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// state is all that the lock of a Server guards; its methods are called with the lock held.
type state struct {
	closed   bool
	store    *store // nil until init
	catalog  catalog
	rights   rights
	script   script
	agenda   agenda
	habits   habits
	changed  chan struct{} // closed and replaced when watches may have something to send
	requests []Request
	conns    map[*conn]struct{}
	tick     func() // locks the server, and runs what is due
}

// habits are what actions change about watches, for longer than one request.
type habits struct {
	noProtobuf    bool          // metadata is sent as JSON only
	bookmarkEvery time.Duration // 0: none
	expiredForm   string        // how watches from expired versions are refused: "", "status" or "close"
}

// init makes a zero state ready.
func (s *state) init(tick func()) {
	s.store, s.changed, s.conns, s.tick = newStore(), make(chan struct{}), map[*conn]struct{}{}, tick
	s.heal()
}

// wake lets the watches send what has changed.
func (s *state) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// schedule runs an action later.
func (s *state) schedule(t timed) {
	s.agenda.add(t)
	s.agenda.wait(s.tick)
}

// runDue runs the actions that are due.
func (s *state) runDue() {
	ran := false
	for do := s.agenda.next(); do != nil; do = s.agenda.next() {
		do()
		ran = true
	}
	if ran {
		s.wake()
		s.agenda.wait(s.tick)
	}
}

// change changes an object of a resource that is served.
func (s *state) change(r gvr.Resource,
	write func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	if !s.catalog.serves(r) {
		return nil, unknownResource()
	}
	was := s.store.rev
	o, err := write()
	if s.store.rev != was {
		s.wake()
	}
	return o, err
}

// end ends the connections that match.
func (s *state) end(how ending, match func(*conn) bool) {
	for c := range s.conns {
		if c.r.Context().Err() == nil && match(c) {
			c.how = how
			c.cut()
		}
	}
}
