package streamtest

import (
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// timed is something that is to happen.
type timed struct {
	due    time.Time
	do     func()
	script bool // not a consequence of what has happened already
}

// schedule keeps the order of what is due at the same time.
func (s *Server) schedule(due time.Time, script bool, do func()) {
	i := len(s.pending)
	for i > 0 && s.pending[i-1].due.After(due) {
		i--
	}
	s.pending = slices.Insert(s.pending, i, timed{due, do, script})
	s.setTimer()
}

// runDue does what is due. Everything that looks at the server calls it first, so
// that nobody sees it late because the timer's goroutine has not had its turn.
func (s *Server) runDue() {
	ran := false
	for len(s.pending) > 0 && !s.pending[0].due.After(time.Now()) {
		do := s.pending[0].do
		s.pending = s.pending[1:]
		do()
		ran = true
	}
	if ran {
		s.wake()
		s.setTimer()
	}
}

func (s *Server) setTimer() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if len(s.pending) > 0 {
		s.timer = time.AfterFunc(time.Until(s.pending[0].due), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.runDue()
		})
	}
}

// action is what happens to the server, rather than to a request. It is done with
// the lock held.
type action func(s *Server)

// right says that a verb is allowed, or not; the last one that fits counts.
type right struct {
	verb      string // empty: all
	resources []gvr.Resource
	namespace string // empty: everywhere
	allowed   bool
}

func (s *Server) forbidden(q *query) bool {
	for i := len(s.rights) - 1; i >= 0; i-- {
		r := s.rights[i]
		if (r.verb == "" || r.verb == q.Verb) && (r.namespace == "" || r.namespace == q.Namespace) && among(r.resources, q) {
			return !r.allowed
		}
	}
	return false
}

// heal takes back all faults: what the script has still in store, rights, and
// discovery that is down. CRDs that were deleted stay so.
func (s *Server) heal() {
	s.rules, s.poison, s.rights, s.unauthorized = nil, map[int64]fault{}, nil, false
	s.downGroups, s.bookmarkEvery, s.expiredForm = map[string]bool{}, time.Minute, ""
	s.pending = slices.DeleteFunc(slices.Clone(s.pending), func(t timed) bool { return t.script })
	s.setTimer()
}

func everyWatch(c *conn) bool { return c.query.Verb == "watch" }
func everyConn(*conn) bool    { return true }

func watchesAmong(resources []gvr.Resource) func(*conn) bool {
	return func(c *conn) bool { return everyWatch(c) && among(resources, c.query) }
}

// restart is what clients see of an API server's restart: all connections end,
// and the new process's watch cache knows no version from before.
func (s *Server) restart() {
	s.store.compact(s.store.rev)
	s.end(endClean, everyWatch)
	s.end(endReset, everyConn)
}

// expire is what clients see of a change of a CRD's schema: its watches end, and
// its versions have expired.
func (s *Server) expire(resources []gvr.Resource) {
	for _, r := range s.known {
		if len(resources) == 0 || slices.ContainsFunc(resources, sameName(r)) {
			s.store.table(r.GroupResource()).oldest = s.store.rev
		}
	}
	s.end(endClean, watchesAmong(resources))
}

// deleteCRD deletes the objects one by one, then the resource. Watches end a
// second later, as those of an apiextensions-apiserver do.
func (s *Server) deleteCRD(resources []gvr.Resource) {
	var open []*conn
	for c := range s.conns {
		if watchesAmong(resources)(c) {
			open = append(open, c)
		}
	}
	for _, r := range slices.Clone(s.served) {
		if len(resources) == 0 || slices.ContainsFunc(resources, sameName(r)) {
			s.store.clear(r.GroupResource())
			s.unserve(r)
			s.store.rev++ // the CRD's own end
		}
	}
	s.schedule(time.Now().Add(time.Second), false, func() {
		s.end(endClean, func(c *conn) bool { return slices.Contains(open, c) })
	})
}

// createCRD serves what was deleted again: empty, and without a past.
func (s *Server) createCRD(resources []gvr.Resource) {
	for _, r := range s.known {
		_, exists := s.find(r.Group, r.Version, r.GroupVersionResource.Resource)
		if exists || len(resources) > 0 && !slices.ContainsFunc(resources, sameName(r)) {
			continue
		}
		s.store.clear(r.GroupResource())
		s.store.rev++
		s.store.table(r.GroupResource()).oldest = s.store.rev
		s.served = append(s.served, r)
	}
}
