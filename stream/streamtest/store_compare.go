package streamtest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// differs says in what a loaded checkpoint differs from what it should be, or returns an empty string. Objects may come
// in any order.
func (c *storeCheck) differs(want, got *checkpoint.Checkpoint) string {
	switch {
	case want == nil && got == nil:
		return ""
	case want == nil:
		return fmt.Sprintf("invalid checkpoint of %q: must be nil", got.Identity.Resource)
	case got == nil:
		return "invalid nil: there is a checkpoint"
	}
	w, g := want.Position, got.Position
	_, noObjects := c.store.(interface{ PositionsOnly() })
	if noObjects {
		w.Partial, w.Objects = true, nil
		if want.Identity.Resource == "" {
			w.Partial = g.Partial // nothing was committed: there is no position that could be Partial
		}
	}
	switch {
	case !sameIdentity(want.Identity, got.Identity):
		return fmt.Sprintf("invalid Identity %+v: must be %+v", got.Identity, want.Identity)
	case !maps.Equal(w.ResourceVersions, g.ResourceVersions):
		return fmt.Sprintf("invalid ResourceVersions %q: must be %q", g.ResourceVersions, w.ResourceVersions)
	case w.Partial != g.Partial:
		return fmt.Sprintf("invalid Partial %t: must be %t", g.Partial, w.Partial)
	case w.Rewound != g.Rewound:
		return fmt.Sprintf("invalid Rewound %t: must be %t", g.Rewound, w.Rewound)
	case w.Unclean != g.Unclean:
		return fmt.Sprintf("invalid Unclean %t: must be %t", g.Unclean, w.Unclean)
	case want.Identity.Resource != "" && time.Since(got.Committed).Abs() > time.Hour:
		return fmt.Sprintf("invalid Committed %v: must be the time of the commit", got.Committed)
	}
	return objectsDiffer(w.Objects, g.Objects)
}

func sameIdentity(a, b checkpoint.Identity) bool {
	same := slices.Equal(a.Namespaces, b.Namespaces)
	a.Namespaces, b.Namespaces = nil, nil
	return same && reflect.DeepEqual(a, b)
}

// objectsDiffer names one object that is wrong.
func objectsDiffer(want, got []checkpoint.Object) string {
	loaded := make(map[checkpoint.Object]string, len(got))
	for _, o := range got {
		if _, twice := loaded[unversioned(o)]; twice {
			return fmt.Sprintf("invalid object %s: it is there twice", text(o))
		}
		loaded[unversioned(o)] = o.ResourceVersion
	}
	var wrong []checkpoint.Object
	for _, o := range want {
		if version, ok := loaded[unversioned(o)]; !ok || version != o.ResourceVersion {
			wrong = append(wrong, o)
		}
	}
	if len(wrong) > 0 {
		o := slices.MinFunc(wrong, compareObjects) // the same one each time
		version, ok := loaded[unversioned(o)]
		switch {
		case ok:
			return fmt.Sprintf("the object %s has an invalid ResourceVersion %q: must be %q", text(o), version,
				o.ResourceVersion)
		case len(got) == 0:
			return "no objects: a Store that keeps none must have a method PositionsOnly"
		}
		return fmt.Sprintf("the object %s is missing", text(o))
	}
	for _, o := range want {
		delete(loaded, unversioned(o))
	}
	if len(loaded) == 0 {
		return ""
	}
	extra := slices.MinFunc(slices.Collect(maps.Keys(loaded)), compareObjects)
	return fmt.Sprintf("invalid object %s: must not be there", text(extra))
}

func text(o checkpoint.Object) string {
	return fmt.Sprintf("{Namespace: %.100q, Name: %.100q, UID: %.100q}", o.Namespace, o.Name, o.UID)
}

func compareObjects(a, b checkpoint.Object) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

func unversioned(o checkpoint.Object) checkpoint.Object {
	o.ResourceVersion = ""
	return o
}

// applyTo does to checkpoints what a commit of deltas should do.
func applyTo(all map[string]*checkpoint.Checkpoint, deltas []checkpoint.Delta) {
	for _, d := range copied(deltas) {
		objects := map[checkpoint.Object]string{}
		if before := all[d.Key]; before != nil && !d.Reset {
			for _, o := range before.Position.Objects {
				objects[unversioned(o)] = o.ResourceVersion
			}
		}
		for _, o := range d.Put {
			objects[unversioned(o)] = o.ResourceVersion
		}
		for _, o := range d.Removed {
			delete(objects, unversioned(o))
		}
		after := &checkpoint.Checkpoint{Identity: d.Identity, Position: checkpoint.Position{
			ResourceVersions: d.ResourceVersions, Partial: d.Partial, Rewound: d.Rewound, Unclean: d.Unclean,
		}}
		for o, version := range objects {
			o.ResourceVersion = version
			after.Position.Objects = append(after.Position.Objects, o)
		}
		all[d.Key] = after
	}
}

// copied returns deep copies.
func copied(deltas []checkpoint.Delta) []checkpoint.Delta {
	deltas = slices.Clone(deltas)
	for i := range deltas {
		d := &deltas[i]
		d.Identity.Namespaces = slices.Clone(d.Identity.Namespaces)
		d.ResourceVersions = maps.Clone(d.ResourceVersions)
		d.Put, d.Removed = slices.Clone(d.Put), slices.Clone(d.Removed)
	}
	return deltas
}

// clone returns a deep copy.
func clone(c *checkpoint.Checkpoint) *checkpoint.Checkpoint {
	if c == nil {
		return nil
	}
	d := *c
	d.Identity.Namespaces = slices.Clone(c.Identity.Namespaces)
	d.Position.ResourceVersions = maps.Clone(c.Position.ResourceVersions)
	d.Position.Objects = slices.Clone(c.Position.Objects)
	return &d
}
