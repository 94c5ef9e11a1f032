package explore

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
)

// carrier carries out Outputs on an index, as the delivery of a Worker does.
type carrier struct {
	*session // embedded: a carrier is a session whose index has been rebuilt
	index    *index.Index
	noted    *[]objects.Version // what the index says that it has changed, in order
}

// isGone is the version of what is noted as gone.
const isGone = "gone"

// unnoted returns an error unless what was noted leads from the entries before to those now: the checkpoint of a
// program has the one, and Position the other.
func (c carrier) unnoted(before []entry) error {
	noted := map[objects.ID]string{}
	for _, e := range before {
		noted[c.asVersion(e.object).ID] = c.asVersion(e.object).ResourceVersion
	}
	for _, v := range *c.noted {
		if noted[v.ID] = v.ResourceVersion; v.ResourceVersion == isGone {
			delete(noted, v.ID)
		}
	}
	now := map[objects.ID]string{}
	for _, e := range c.entries {
		now[c.asVersion(e.object).ID] = c.asVersion(e.object).ResourceVersion
	}
	if !maps.Equal(noted, now) {
		return fmt.Errorf("the index has %v, and noted what leads to %v", now, noted)
	}
	return nil
}

func (c carrier) carry(out protocol.Outputs, r reply) error {
	if out.Gap != (protocol.EmitGap{}) {
		if out.Gap.Reused {
			c.index.Distrust()
		}
		c.infers = true
		c.keep(c.index) // for the Position at the event
		if err := c.emit(event{kind: sequence.Gap, gap: out.Gap}); err != nil {
			return err
		}
	}
	if out.BeginSnapshot {
		c.report.version, c.report.begun = "", true
		c.index.BeginList()
	}
	switch out.Listed.Fate {
	case protocol.Retain:
		c.retained = append(slices.Clip(c.retained), r.change.object)
	case protocol.Gather, protocol.Deliver:
		page := append(slices.Clip(c.retained), r.objects...)
		if r.kind == happened {
			page = append(page, r.change.object)
		}
		c.retained = nil
		for _, o := range page {
			if err := c.listed(out.Listed, o); err != nil {
				return err
			}
		}
	}
	switch out.EndSnapshot {
	case protocol.EmitDeleted:
		return c.index.EndList(func(ch index.Change) error { return c.change(ch, object{}, true, "") })
	case protocol.OnlyForgotten:
		return c.index.EndList(nil)
	}
	if out.Event.Emit {
		return c.event(out.Event, r.change)
	}
	return nil
}

// listed delivers an object of a snapshot, if it is new or changed.
func (c carrier) listed(l protocol.Listed, o object) error {
	from, deliver := index.Listed, func(ch index.Change) error { return c.change(ch, o, true, "") }
	if c.index.Saw(c.asVersion(o).ID) {
		from = index.ListedAgain
	}
	if l.Quiet || l.Since != "" && protocol.NotAfter(text(o.version), l.Since) {
		deliver = nil
	}
	return c.index.Put(c.asVersion(o), c.selected(o), from, deliver)
}

// event delivers an event of a watch.
func (c carrier) event(e protocol.EmitEvent, ch change) error {
	now := c.asVersion(ch.object)
	if e.Partial && !e.Replay && !c.index.Has(now.ID) {
		kind := watch.EventType(ch.kind.String())
		switch {
		case !c.selected(ch.object):
			return nil
		case ch.kind == deleted:
		case c.selects:
			kind = watch.Added // it may not have been selected before
			fallthrough
		default:
			if err := c.index.Put(now, true, index.Happened, nil); err != nil {
				return err
			}
		}
		return c.change(index.Change{Kind: kind}, ch.object, false, e.Version)
	}
	from := index.Happened
	switch {
	case c.fake:
		from = index.Only
	case e.Replay:
		from = index.Replayed
	case ch.kind == added && !e.Exists:
		from = index.Appeared
	}
	deliver := func(of index.Change) error { return c.change(of, ch.object, false, e.Version) }
	if ch.kind == deleted {
		return c.index.Remove(now, from, deliver)
	}
	return c.index.Put(now, c.selected(ch.object), from, deliver)
}

// change delivers a change of o, or of an object that is gone. The sequence moves to a version with it, if that is not
// empty.
func (c carrier) change(ch index.Change, o object, listed bool, movesTo string) error {
	inferred := listed && (c.infers || ch.Kind != watch.Added)
	switch {
	case ch.Gone != nil:
		o, inferred = objectOf(*ch.Gone), true
	case ch.Left != nil && listed:
		o, inferred = objectOf(*ch.Left), true
	}
	if movesTo != "" && !inferred && !ch.Doubtful {
		c.report.reach(movesTo)
	}
	c.keep(c.index)
	return c.emit(event{kind: sequence.Kind(ch.Kind), object: o, inferred: inferred})
}

func (s *session) asVersion(o object) objects.Version {
	id := objects.ID{Name: names[o.name], UID: o.asUID()}
	v := objects.Version{ID: id, ResourceVersion: text(o.version)}
	if s.fake && o.version > 0 {
		v.ResourceVersion = unversioned + v.ResourceVersion
	}
	return v
}

// objectOf is the reverse of asVersion, but for the epoch.
func objectOf(v objects.Version) object {
	o := object{version: number(v.ResourceVersion), name: int8(slices.Index(names[:], v.Name))}
	if v.UID != "" {
		o.uid = number(string(v.UID[len(v.UID)-2:]))
	}
	return o
}

func entryOf(o checkpoint.Object) objects.Version {
	id := objects.ID{Namespace: o.Namespace, Name: o.Name, UID: o.UID}
	return objects.Version{ID: id, ResourceVersion: o.ResourceVersion}
}
