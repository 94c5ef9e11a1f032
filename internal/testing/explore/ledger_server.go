package explore

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// ledgerContent is an object in one state. A server that has gone back in time uses versions again, in another epoch.
type ledgerContent struct {
	version string
	epoch   int8
}

// ledgerObject is an object in one state.
type ledgerObject struct {
	id            objects.ID
	ledgerContent // embedded: an object is its state
}

// ledgerID returns the identity of an object in a checkpoint.
func ledgerID(o checkpoint.Object) objects.ID {
	return objects.ID{Namespace: o.Namespace, Name: o.Name, UID: o.UID}
}

// ledgerWorld has the objects that exist, or that somebody believes to exist, in order. It is never changed.
type ledgerWorld []ledgerObject

func (w ledgerWorld) find(id objects.ID) (i int, ok bool) {
	return slices.BinarySearchFunc(w, id, func(o ledgerObject, id objects.ID) int { return o.id.Compare(id) })
}

func (w ledgerWorld) of(id objects.ID) (c ledgerContent, ok bool) {
	i, ok := w.find(id)
	if ok {
		c = w[i].ledgerContent
	}
	return c, ok
}

func (w ledgerWorld) has(id objects.ID) bool {
	_, ok := w.find(id)
	return ok
}

// with returns a world with an object.
func (w ledgerWorld) with(id objects.ID, c ledgerContent) ledgerWorld {
	i, ok := w.find(id)
	next := make(ledgerWorld, 0, len(w)+1)
	next = append(append(next, w[:i]...), ledgerObject{id, c})
	if ok {
		i++
	}
	return append(next, w[i:]...)
}

// without returns a world without an object.
func (w ledgerWorld) without(id objects.ID) ledgerWorld {
	i, ok := w.find(id)
	if !ok {
		return w
	}
	return slices.Concat(w[:i], w[i+1:])
}

// after returns the world after a write.
func (w ledgerWorld) after(c ledgerWrite) ledgerWorld {
	switch {
	case c.id.Name == "":
		return w
	case c.gone:
		return w.without(c.id)
	}
	return w.with(c.id, c.ledgerContent)
}

// ledgerWrite is one write on the server. One without an object is of an object that is not selected.
type ledgerWrite struct {
	ledgerObject  // embedded: that is what was written
	created, gone bool
}

// ledgerServer is the server. The version of a write is its number, counted from 2.
type ledgerServer struct {
	history []ledgerWrite
	world   ledgerWorld
	epoch   int8
	writes  int // in all epochs
}

func (s *ledgerServer) version() string { return strconv.Itoa(len(s.history) + 1) }

// write writes an object, which is gone afterwards or not. One without a name is not selected.
func (s *ledgerServer) write(id objects.ID, gone bool) {
	at := ledgerContent{strconv.Itoa(len(s.history) + 2), s.epoch}
	c := ledgerWrite{ledgerObject{id, at}, !s.world.has(id) && !gone, gone}
	s.history = append(slices.Clip(s.history), c)
	s.world = s.world.after(c)
	s.writes++
}

// at returns the objects that existed at a version.
func (s *ledgerServer) at(version string) (w ledgerWorld) {
	for _, c := range s.history[:ledgerAfter(version)] {
		w = w.after(c)
	}
	return w
}

// rewind takes the last write back, as a restored etcd does.
func (s *ledgerServer) rewind() {
	s.history = s.history[:len(s.history)-1]
	s.world = s.at(s.version())
	s.epoch++
}

// ledgerAfter returns the number of the first write after a version.
func ledgerAfter(version string) int {
	v, _ := strconv.Atoi(version)
	return max(v-1, 0)
}

// isAhead reports whether a version is one that the server does not have yet: it has gone back in time.
func (s *ledgerServer) isAhead(version string) bool {
	return version != "" && ledgerAfter(version) > len(s.history)
}

// hasGoneBack reports whether a position is at a version that the server does not have yet.
func (s *ledgerServer) hasGoneBack(p *checkpoint.Position) bool {
	for _, v := range p.ResourceVersions {
		if s.isAhead(v) {
			return true
		}
	}
	return slices.ContainsFunc(p.Objects, func(o checkpoint.Object) bool { return s.isAhead(o.ResourceVersion) })
}

// named returns the object of a name that exists, or the one that the next write creates. Recreated objects get new
// uids, unless an object returns because it is selected again.
func (s *ledgerServer) named(namespace, name string, recreated bool) (id objects.ID, exists bool) {
	id = objects.ID{Namespace: namespace, Name: name, UID: "u"}
	uids := 0
	for _, c := range s.history {
		if c.id.Namespace == namespace && c.id.Name == name {
			exists = !c.gone
			if c.created {
				uids++
			}
		}
	}
	if recreated {
		if !exists {
			uids++
		}
		id.UID = types.UID(strconv.Itoa(uids) + "u")
	}
	return id, exists
}

// isNew reports whether an object has never existed.
func (s *ledgerServer) isNew(id objects.ID) bool {
	return !slices.ContainsFunc(s.history, func(c ledgerWrite) bool {
		return c.id.Namespace == id.Namespace && c.id.Name == id.Name
	})
}
