package configmap

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// entry is what is committed under a key. But for index and density, which
// depend on the rest, it does not change: a commit makes new ones, so that one that
// fails has done nothing.
type entry struct {
	identity  checkpoint.Identity
	versions  map[string]string
	partial   bool
	rewound   bool
	unclean   bool
	committed time.Time
	objects   []checkpoint.Object // one of a name that is not Unacked, and any that are; sorted by compare

	index   []byte  // objects, packed; nil if that has not been done
	density float64 // bytes of the index for an object, when it was packed last; 0 if never
}

// with returns the entry after a delta. e may be nil.
func (e *entry) with(d checkpoint.Delta, now time.Time) *entry {
	next := &entry{identity: d.Identity, versions: maps.Clone(d.ResourceVersions), partial: d.Partial, rewound: d.Rewound, unclean: d.Unclean, committed: now}
	next.identity.Namespaces = slices.Clone(d.Identity.Namespaces)
	if e != nil {
		next.density = e.density
		if !d.Reset {
			next.objects, next.index = e.objects, e.index
		}
	}
	if changes := changesOf(d); len(changes) > 0 {
		next.objects, next.index = merge(next.objects, changes), nil
	}
	return next
}

// change is of an object, of which compare sees what it must if it is gone.
type change struct {
	checkpoint.Object
	gone bool
}

// changesOf returns what a delta changes, sorted.
func changesOf(d checkpoint.Delta) []change {
	changes := make([]change, 0, len(d.Put)+len(d.Gone)+len(d.Told)+len(d.Settled))
	for _, o := range d.Put {
		o.Unacked = false
		changes = append(changes, change{Object: o})
	}
	for _, n := range d.Gone {
		changes = append(changes, change{checkpoint.Object{Namespace: n.Namespace, Name: n.Name}, true})
	}
	for _, o := range d.Told {
		o.Unacked = true
		changes = append(changes, change{Object: o})
	}
	for _, id := range d.Settled {
		changes = append(changes, change{checkpoint.Object{Namespace: id.Namespace, Name: id.Name, UID: id.UID, Unacked: true}, true})
	}
	slices.SortFunc(changes, func(a, b change) int { return compare(a.Object, b.Object) })
	return changes
}

// merge returns objects with those that are new or have changed, and without
// those that are gone.
func merge(objects []checkpoint.Object, changes []change) []checkpoint.Object {
	merged := make([]checkpoint.Object, 0, len(objects)+len(changes))
	for _, c := range changes {
		before, found := slices.BinarySearchFunc(objects, c.Object, compare)
		merged = append(merged, objects[:before]...)
		objects = objects[before:]
		if found {
			objects = objects[1:]
		}
		if !c.gone {
			merged = append(merged, c.Object)
		}
	}
	return append(merged, objects...)
}

// compare orders objects as Load returns them: those that are Unacked last. Of the
// others there is one of a name; of these, one of an ID.
func compare(a, b checkpoint.Object) int {
	switch {
	case a.Unacked != b.Unacked && b.Unacked:
		return -1
	case a.Unacked != b.Unacked:
		return 1
	}
	order := cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	if a.Unacked {
		order = cmp.Or(order, cmp.Compare(a.UID, b.UID))
	}
	return order
}

// checkpoint returns a copy for the caller.
func (e *entry) checkpoint() *checkpoint.Checkpoint {
	c := &checkpoint.Checkpoint{Identity: e.identity, Committed: e.committed, Position: checkpoint.Position{
		ResourceVersions: maps.Clone(e.versions), Partial: e.partial, Rewound: e.rewound, Unclean: e.unclean,
	}}
	c.Identity.Namespaces = slices.Clone(e.identity.Namespaces)
	if len(e.objects) > 0 {
		c.Position.Objects = slices.Clone(e.objects)
	}
	return c
}

// saved is the JSON of it.
func (e *entry) saved(leftOut bool) savedCheckpoint {
	return savedCheckpoint{
		Identity: e.identity, ResourceVersions: e.versions, Partial: e.partial, Rewound: e.rewound, Unclean: e.unclean, Committed: e.committed,
		Objects: len(e.objects), LeftOut: leftOut,
	}
}
