package apiserver

import (
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// action is what a script does to the server, rather than to a request. It runs with the lock held.
type action struct {
	usage string
	all   bool // concerns the whole server, so that no resource may be named
	do    func(s *state, a args)
}

// actions are the actions of the script language. A new one also needs a line in doc.go.
var actions = []action{
	{"compact", true, func(s *state, _ args) { s.store.compact(s.store.rev) }},
	{"rewind N", true, func(s *state, a args) { s.store.rewind(s.store.back(a.n)) }},
	{"rewind N restart", true, func(s *state, a args) { s.store.rewind(s.store.back(a.n)); s.endAll() }},
	{"restart", true, func(s *state, _ args) { s.store.compact(s.store.rev); s.endAll() }},
	{"heal", true, func(s *state, _ args) { s.heal() }},
	{"unauthorized", true, func(s *state, _ args) { s.rights.unauthorized = true }},
	{"authorized", true, func(s *state, _ args) { s.rights.unauthorized = false }},
	{"discovery down GROUP", true, func(s *state, a args) { s.catalog.downGroups[a.group] = true }},
	{"discovery up GROUP", true, func(s *state, a args) { s.catalog.downGroups[a.group] = false }},
	{"410 in stream", true, func(s *state, _ args) { s.habits.expiredForm = "" }},
	{"410 as status", true, func(s *state, _ args) { s.habits.expiredForm = "status" }},
	{"410 as close", true, func(s *state, _ args) { s.habits.expiredForm = "close" }},
	{"bookmarks never", true, func(s *state, _ args) { s.habits.bookmarkEvery = 0 }},
	{"bookmarks every SECONDS", true, func(s *state, a args) { s.habits.bookmarkEvery = a.duration }},
	{"no protobuf", true, func(s *state, _ args) { s.habits.noProtobuf = true }},
	{"delete crd", false, func(s *state, a args) { s.deleteCRD(a.resources) }},
	{"create crd", false, func(s *state, a args) { s.createCRD(a.resources) }},
	{"expire", false, func(s *state, a args) { s.expire(a.resources) }},
	{"close watches", false, func(s *state, a args) { s.end(endClean, watchesAmong(a.resources)) }},
	{"silence", false, func(s *state, a args) { s.end(endSilent, watchesAmong(a.resources)) }},
	{"forbid VERB", false, func(s *state, a args) { s.rights.add(a, false) }},
	{"forbid VERB in NAMESPACE", false, func(s *state, a args) { s.rights.add(a, false) }},
	{"allow VERB", false, func(s *state, a args) { s.rights.add(a, true) }},
	{"allow VERB in NAMESPACE", false, func(s *state, a args) { s.rights.add(a, true) }},
	{"allow", false, func(s *state, a args) { s.rights.add(a, true) }},
}

// heal takes back all faults: those that scripts have announced, missing rights, and failing discovery. Deleted CRDs
// stay deleted.
func (s *state) heal() {
	s.script.live, s.rights, s.habits = nil, rights{}, habits{bookmarkEvery: time.Minute}
	s.catalog.downGroups = map[string]bool{}
	s.agenda.cancel()
	s.agenda.wait(s.tick)
}

func watchesAmong(resources []gvr.Resource) func(*conn) bool {
	return func(c *conn) bool { return c.query.Verb == "watch" && among(resources, c.query) }
}

// endAll ends all connections, as an API server does when it stops.
func (s *state) endAll() {
	s.end(endClean, watchesAmong(nil))
	s.end(endReset, func(*conn) bool { return true })
}

// expire does what clients see of a change of a CRD's schema: watches end, and versions expire.
func (s *state) expire(resources []gvr.Resource) {
	for _, r := range s.catalog.orAll(resources) {
		s.store.table(r.GroupResource()).oldest = s.store.rev
	}
	s.end(endClean, watchesAmong(resources))
}

// deleteCRD deletes the objects one by one, then the resource. Watches end a second later, as in
// apiextensions-apiserver.
func (s *state) deleteCRD(resources []gvr.Resource) {
	var open []*conn
	for c := range s.conns {
		if watchesAmong(resources)(c) {
			open = append(open, c)
		}
	}
	for _, r := range s.catalog.orAll(resources) {
		if s.catalog.serves(r) {
			s.store.clear(r.GroupResource())
			s.catalog.remove(r)
			s.store.rev++ // the deletion of the CRD itself
		}
	}
	s.schedule(timed{due: time.Now().Add(time.Second), do: func() {
		s.end(endClean, func(c *conn) bool { return slices.Contains(open, c) })
	}})
}

// createCRD serves deleted resources again: empty, and with all earlier versions expired.
func (s *state) createCRD(resources []gvr.Resource) {
	for _, r := range s.catalog.orAll(resources) {
		if !s.catalog.serves(r) {
			s.store.clear(r.GroupResource())
			s.store.rev++
			s.store.table(r.GroupResource()).oldest = s.store.rev
			s.catalog.add(r)
		}
	}
}
