package streamtest

import (
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// action is what a script does to the server, rather than to a request. It runs with the lock held.
type action struct {
	usage string
	all   bool // concerns the whole server, so that no resource may be named
	do    func(s *Server, a args)
}

// actions are the actions of the script language. A new one also needs a line in doc.go.
var actions = []action{
	{"compact", true, func(s *Server, _ args) { s.store.compact(s.store.rev) }},
	{"rewind N", true, func(s *Server, a args) { s.store.rewind(s.store.back(a.n)) }},
	{"rewind N restart", true, func(s *Server, a args) { s.store.rewind(s.store.back(a.n)); s.endAll() }},
	{"restart", true, func(s *Server, _ args) { s.store.compact(s.store.rev); s.endAll() }},
	{"heal", true, func(s *Server, _ args) { s.heal() }},
	{"unauthorized", true, func(s *Server, _ args) { s.unauthorized = true }},
	{"authorized", true, func(s *Server, _ args) { s.unauthorized = false }},
	{"discovery down GROUP", true, func(s *Server, a args) { s.downGroups[a.group] = true }},
	{"discovery up GROUP", true, func(s *Server, a args) { s.downGroups[a.group] = false }},
	{"410 in stream", true, func(s *Server, _ args) { s.expiredForm = "" }},
	{"410 as status", true, func(s *Server, _ args) { s.expiredForm = "status" }},
	{"410 as close", true, func(s *Server, _ args) { s.expiredForm = "close" }},
	{"bookmarks never", true, func(s *Server, _ args) { s.bookmarkEvery = 0 }},
	{"bookmarks every SECONDS", true, func(s *Server, a args) { s.bookmarkEvery = a.duration }},
	{"no protobuf", true, func(s *Server, _ args) { s.noProtobuf = true }},
	{"delete crd", false, func(s *Server, a args) { s.deleteCRD(a.resources) }},
	{"create crd", false, func(s *Server, a args) { s.createCRD(a.resources) }},
	{"expire", false, func(s *Server, a args) { s.expire(a.resources) }},
	{"close watches", false, func(s *Server, a args) { s.end(endClean, watchesAmong(a.resources)) }},
	{"silence", false, func(s *Server, a args) { s.end(endSilent, watchesAmong(a.resources)) }},
	{"forbid VERB", false, func(s *Server, a args) { s.rights = append(s.rights, right{a, false}) }},
	{"forbid VERB in NAMESPACE", false, func(s *Server, a args) { s.rights = append(s.rights, right{a, false}) }},
	{"allow VERB", false, func(s *Server, a args) { s.rights = append(s.rights, right{a, true}) }},
	{"allow VERB in NAMESPACE", false, func(s *Server, a args) { s.rights = append(s.rights, right{a, true}) }},
	{"allow", false, func(s *Server, a args) {
		if s.rights = append(s.rights, right{a, true}); len(a.resources) == 0 {
			s.rights = nil
		}
	}},
}

// heal takes back all faults: those that scripts have announced, missing rights, and failing discovery. Deleted CRDs
// stay deleted.
func (s *Server) heal() {
	s.live, s.rights, s.unauthorized, s.noProtobuf = nil, nil, false, false
	s.downGroups, s.bookmarkEvery, s.expiredForm = map[string]bool{}, time.Minute, ""
	s.pending = slices.DeleteFunc(slices.Clone(s.pending), func(t timed) bool { return t.script })
	s.setTimer()
}

// timed is an action that is due at some time.
type timed struct {
	due    time.Time
	do     func()
	script bool // a script announced it; otherwise it follows from an earlier action
}

// schedule keeps the order of actions that are due at the same time.
func (s *Server) schedule(due time.Time, script bool, do func()) {
	s.pending = append(s.pending, timed{due, do, script})
	slices.SortStableFunc(s.pending, func(a, b timed) int { return a.due.Compare(b.due) })
	s.setTimer()
}

// runDue runs the actions that are due. Every method calls it first, so that none depends on when the timer's goroutine
// runs, and the zero Server works.
func (s *Server) runDue() {
	if s.store == nil {
		s.init()
	}
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

func watchesAmong(resources []gvr.Resource) func(*conn) bool {
	return func(c *conn) bool { return c.query.Verb == "watch" && among(resources, c.query) }
}

// endAll ends all connections, as an API server does when it stops.
func (s *Server) endAll() {
	s.end(endClean, watchesAmong(nil))
	s.end(endReset, func(*conn) bool { return true })
}

// orAll returns the resources, or if there are none, every resource that was ever served.
func (s *Server) orAll(resources []gvr.Resource) []gvr.Resource {
	if len(resources) == 0 {
		return slices.Clone(s.known)
	}
	return resources
}

// expire does what clients see of a change of a CRD's schema: watches end, and versions expire.
func (s *Server) expire(resources []gvr.Resource) {
	for _, r := range s.orAll(resources) {
		s.store.table(r.GroupResource()).oldest = s.store.rev
	}
	s.end(endClean, watchesAmong(resources))
}

// deleteCRD deletes the objects one by one, then the resource. Watches end a second later, as in
// apiextensions-apiserver.
func (s *Server) deleteCRD(resources []gvr.Resource) {
	var open []*conn
	for c := range s.conns {
		if watchesAmong(resources)(c) {
			open = append(open, c)
		}
	}
	for _, r := range s.orAll(resources) {
		if _, served := s.find(r.Group, r.Version, r.Resource); served {
			s.store.clear(r.GroupResource())
			s.unserve(r)
			s.store.rev++ // the deletion of the CRD itself
		}
	}
	s.schedule(time.Now().Add(time.Second), false, func() {
		s.end(endClean, func(c *conn) bool { return slices.Contains(open, c) })
	})
}

// createCRD serves deleted resources again: empty, and with all earlier versions expired.
func (s *Server) createCRD(resources []gvr.Resource) {
	for _, r := range s.orAll(resources) {
		if _, served := s.find(r.Group, r.Version, r.Resource); !served {
			s.store.clear(r.GroupResource())
			s.store.rev++
			s.store.table(r.GroupResource()).oldest = s.store.rev
			s.served = append(s.served, r)
		}
	}
}
