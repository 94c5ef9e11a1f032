package stream

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// ghosts are objects that an earlier run was about to tell as ADDED, and nobody
// said that it was handled. Whether the caller knows of one is not known; if it is
// gone that must be told, and if it is there it comes again. There are few, and
// mostly none.
type ghosts map[types.NamespacedName][]identity

// haunt makes an object a ghost.
func (x *index) haunt(i identity) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ghosts == nil {
		x.ghosts = ghosts{}
	}
	x.ghosts[i.NamespacedName] = append(x.ghosts[i.NamespacedName], i)
}

// lay removes the ghost of an object that is there or was just now, at a version,
// and returns it, if there was one. In a watch that goes on before the version that
// was told, what comes up to then says nothing of the ghost; a list is the present,
// also where the server has gone back in time.
func (x *index) lay(name types.NamespacedName, uid types.UID, version string) *identity {
	of := x.ghosts[name]
	i := slices.IndexFunc(of, func(i identity) bool { return i.uid == uid })
	if i < 0 || !x.listing && before(version, of[i].version) {
		return nil
	}
	ghost := of[i]
	x.note(checkpoint.Change{Gone: true, Object: ghost.unacked()})
	x.mu.Lock()
	defer x.mu.Unlock()
	if of = slices.Concat(of[:i], of[i+1:]); len(of) > 0 {
		x.ghosts[name] = of
	} else {
		delete(x.ghosts, name)
	}
	return &ghost
}

// bury tells the end of those whose name another object has. It is for a
// snapshot: a watch that goes on before them tells it itself.
func (x *index) bury(name types.NamespacedName, uid types.UID) iter.Seq[change] {
	return func(yield func(change) bool) {
		for _, i := range x.ghosts[name] {
			if i.uid == uid {
				continue
			}
			x.lay(name, i.uid, i.version)
			was, ok := x.get(name)
			if ok && !was.hidden && was.uid == i.uid {
				continue // it is known, so its end is told anyway
			}
			if ok && was.uid == uid {
				x.doubtOne(name) // who goes by names has lost it now
			}
			if !yield(change{kind: Deleted, gone: &i, unsure: true}) {
				return
			}
		}
	}
}

// forgo removes the ghosts of an object whose end is told anyway.
func (x *index) forgo(i identity) {
	for _, g := range x.ghosts[i.NamespacedName] {
		if g.uid == i.uid {
			x.lay(i.NamespacedName, i.uid, g.version)
		}
	}
}

// buryAll tells the end of those that are left when a snapshot has been told.
func (x *index) buryAll(spared func(namespace string) bool) iter.Seq[change] {
	return func(yield func(change) bool) {
		for _, i := range x.allGhosts() {
			if spared != nil && spared(i.Namespace) {
				continue
			}
			x.lay(i.NamespacedName, i.uid, i.version)
			if !yield(change{kind: Deleted, gone: &i, unsure: true}) {
				return
			}
		}
	}
}

// allGhosts are those there are at this moment, in the order of their names.
func (x *index) allGhosts() []identity {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := slices.Concat(slices.Collect(maps.Values(x.ghosts))...)
	slices.SortFunc(all, func(a, b identity) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.uid, b.uid))
	})
	return all
}

func (i identity) unacked() checkpoint.Object {
	return checkpoint.Object{Namespace: i.Namespace, Name: i.Name, UID: i.uid, ResourceVersion: i.version, Unacked: true}
}
