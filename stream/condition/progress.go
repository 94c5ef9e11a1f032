package condition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/stream"
)

// maxUnmet is how many objects an UnmetError names.
const maxUnmet = 10

// unmet is an object that does not meet the condition of a target.
type unmet struct {
	object object
	reason string
}

// id identifies an object of a source.
type id struct{ source, uid string }

// progress is what is known of a target.
type progress struct {
	target  Target
	objects map[id]*unmet // nil if the object meets the condition
	notMet  int           // how many of the objects do not
	known   bool          // everything has been synced once, and the target's resource

	needsObjects bool // when it is known
}

// state is an event with an object. It is read once, for all targets.
type state struct {
	event   stream.Event
	object  object
	known   id // zero until it is asked for
	decoded *unstructured.Unstructured
	err     error
}

func (s *state) decode() (*unstructured.Unstructured, error) {
	if s.decoded == nil && s.err == nil {
		s.decoded, s.err = s.event.Decode()
	}
	return s.decoded, s.err
}

func (s *state) id() id {
	if s.known.uid == "" {
		// client-go's fake sets no uid. A part of the event's text would retain all of it.
		uid := cmp.Or(string(s.event.Meta().GetUID()), s.object.namespace+"/"+s.object.name)
		s.known = id{sourceOf(s.event), strings.Clone(uid)}
	}
	return s.known
}

// observe reports whether the object counts for the target.
func (p *progress) observe(s *state) (counts bool, err error) {
	key := s.id()
	before, has := p.objects[key]
	if !has && p.known && p.target.For.kind == gone {
		return false, nil // it has been created since
	}
	if before != nil {
		p.notMet--
	}
	delete(p.objects, key)
	if s.event.Type == stream.Deleted {
		return true, nil
	}
	now, err := p.evaluate(s)
	if err != nil {
		return true, err
	}
	if now != nil {
		p.notMet++
	}
	p.objects[key] = now
	return true, nil
}

// evaluate returns nil if the object meets the condition.
func (p *progress) evaluate(s *state) (*unmet, error) {
	var problem string
	switch p.target.For.kind {
	case exists:
		return nil, nil
	case gone:
		problem = "exists"
	default:
		o, err := s.decode()
		if err != nil {
			problem = "cannot be decoded"
		} else if problem, err = p.target.For.check(o); err != nil {
			return nil, fmt.Errorf("%w (%s)", err, p.named(s.object))
		}
	}
	if problem == "" {
		return nil, nil
	}
	o := s.object
	o.namespace, o.name = strings.Clone(o.namespace), strings.Clone(o.name)
	return &unmet{o, problem}, nil
}

// named returns one object as a target.
func (p *progress) named(o object) Target {
	return Target{For: p.target.For, Resource: o.resource.String(), Namespace: o.namespace, Name: o.name}
}

func (p *progress) met() bool {
	if p.target.For.kind == gone {
		return len(p.objects) == 0
	}
	return len(p.objects) > 0 && p.notMet == 0
}

// unmet adds to all what does not meet the condition, and returns it in order.
func (p *progress) unmet(synced bool, all map[Target]string) (added []Target) {
	add := func(t Target, reason string) {
		all[t] = reason // it may be there: as an object of two sources, or of two targets
		added = append(added, t)
	}
	switch {
	case len(p.objects) > 0:
		for _, u := range p.objects {
			if u != nil {
				add(p.named(u.object), u.reason)
			}
		}
	case !synced:
		add(p.target, "is not known yet")
	case p.target.For.kind == gone:
	case p.target.Name == "":
		add(p.target, "has no objects")
	default:
		add(p.target, missing)
	}
	slices.SortFunc(added, Target.compareObject)
	return added
}
