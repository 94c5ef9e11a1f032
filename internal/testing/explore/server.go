package explore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// names are the objects that a server may have, in the order of lists.
var names = [...]string{"a", "b"}

// object is an object in one of its states. The zero object does not exist.
type object struct {
	name    int8
	uid     int8
	version int8
	epoch   int8 // how often the server had gone back in time before: states of one version differ in it
}

// change is what a server has done to an object. Gone objects are in their last state.
type change struct {
	object // embedded: a change is the state that the object is in after it, or was in before it is gone
	kind   kind
	poison bool // no watch can send it
}

type kind byte

const (
	added kind = iota
	modified
	deleted
)

// server is a server of one resource. Its versions are those of changes, from 2 on: an empty server is at version 1.
type server struct {
	log       []change // that led to what exists now; never changed in place
	now       int8     // the version
	compacted int8     // watches must begin at or after this version
	epoch     int8
	even      bool // whether the version of an object is even depends on its state; see setup.selects
	fake      bool // it gives neither uids nor versions to objects
	uids      int8 // given so far, also to objects that a rewind undid
	answered  int8 // the newest version in an answer since the Stream last was up to date
}

// at returns what exists at a version.
func (s *server) at(version int8) (objects [len(names)]object) {
	for _, c := range s.log {
		switch {
		case c.version > version:
			return objects
		case c.kind == deleted:
			objects[c.name] = object{}
		default:
			objects[c.name] = c.object
		}
	}
	return objects
}

// list returns the objects at a version from the nth name on.
func (s *server) list(version int8, from int) (page []object) {
	for _, o := range s.at(version) {
		if o.version > 0 && int(o.name) >= from {
			page = append(page, o)
		}
	}
	return page
}

// write makes a change of the nth object: it creates, updates or deletes it.
func (s *server) write(name int, k kind, poison bool) change {
	s.now++
	o := s.at(s.now)[name]
	if s.even && k == deleted && o.version%2 != s.now%2 {
		s.now++ // the object was in this state before
	}
	if k == added {
		o = object{name: int8(name)}
		if !s.fake {
			s.uids++
			o.uid = s.uids
		}
	}
	o.version, o.epoch = s.now, s.epoch
	c := change{o, k, poison}
	s.log = append(slices.Clip(s.log), c)
	return c
}

// rewind takes the server back to a version, as when etcd is restored. Its history begins there.
func (s *server) rewind(version int8) {
	for len(s.log) > 0 && s.log[len(s.log)-1].version > version {
		s.log = s.log[: len(s.log)-1 : len(s.log)-1]
	}
	s.now, s.compacted = version, version
	s.epoch++
}

// after returns the first change after a version.
func (s *server) after(version int8) (c change, ok bool) {
	for _, c := range s.log {
		if c.version > version {
			return c, true
		}
	}
	return c, false
}

func (o object) String() string {
	if o.uid == 0 {
		return fmt.Sprintf("%s@%s", names[o.name], text(o.version))
	}
	return fmt.Sprintf("%s/u%d@%s", names[o.name], o.uid, text(o.version))
}

// asUID returns a uid as a kube-apiserver gives it: the index packs such uids. It is empty for uid 0.
func (o object) asUID() types.UID {
	if o.uid == 0 {
		return ""
	}
	return uids[o.uid]
}

var uids = func() (all [100]types.UID) {
	for i := range all {
		all[i] = types.UID(fmt.Sprintf("6ba7b810-9dad-41d1-80b4-00c04fd430%02d", i))
	}
	return all
}()

// text returns a version as requests and answers have it. No version is 0.
func text(version int8) string { return versions[version] }

var versions = func() (all [100]string) {
	for i := 1; i < len(all); i++ {
		all[i] = strconv.Itoa(i)
	}
	return all
}()

// unversioned is the prefix of what a Worker takes for the version of an object that has none.
const unversioned = "#"

func number(text string) (n int8) {
	for _, digit := range []byte(strings.TrimPrefix(text, unversioned)) {
		n = 10*n + int8(digit-'0')
	}
	return n
}

func (k kind) String() string { return [...]string{"ADDED", "MODIFIED", "DELETED"}[k] }
