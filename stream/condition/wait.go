package condition

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

// sequence is a *stream.Stream, a *stream.Sequence, a *mux.Mux or a *follow.Mux.
type sequence interface {
	Events(ctx context.Context) iter.Seq2[stream.Event, error]
	// Synced reports whether SYNCED has been delivered by all that is watched, and no GAP since; and whether every
	// Run delivers everything that exists.
	Synced(friend.Access) (all, whole bool)
}

// Wait runs source, which is a *stream.Stream, a *stream.Sequence, a *mux.Mux or a *follow.Mux, until the newest state
// of every target meets its condition. The package comment says exactly when that is.
//
// Wait loops over source.Events(ctx), so nothing else can run the source meanwhile. Bound the time with ctx. With
// a Sequence that ends at SYNCED ([stream.UntilSynced]), Wait checks once and does not wait.
//
// Wait returns an [*stream.OptionsError] if an argument is invalid, the error of [Condition.Met] with the object if
// there is one, an error that is [ErrNoObjects] if there is nothing to wait for, and otherwise an [*UnmetError], which
// wraps the cause of ctx, the error of the sequence, a *stream.GapError (history is lost) or stream.ErrUnmet (the
// sequence has ended). It does not return the objects.
func Wait(ctx context.Context, source sequence, targets ...Target) error {
	targets = slices.Clone(targets)
	if err := check(ctx, source, targets); err != nil {
		return err
	}
	w := newWaiter(targets)
	l := newLater(ctx, source)
	defer l.end()
	for ev, err := range source.Events(l) {
		if err != nil {
			return w.end(l.explain(err))
		}
		if err := w.observe(ev); err != nil {
			return err
		}
		// A Stream may be synced a moment before SYNCED is delivered, so gaps count, too.
		if !w.changed || w.gaps[sourceOf(ev)] {
			continue
		}
		switch all, whole := source.Synced(friend.Access{}); {
		case !all:
		case !whole:
			return errPartial // a source was added
		default:
			if met, err := w.answer(); met || err != nil {
				return err
			}
		}
	}
	return w.end(l.explain(cmp.Or(context.Cause(ctx), stream.ErrUnmet)))
}

// check returns an error about an argument. It completes the targets.
func check(ctx context.Context, source sequence, targets []Target) error {
	switch {
	case ctx == nil:
		return invalid.New("ctx", "", "must not be nil")
	case source == nil, isNil(reflect.ValueOf(source)):
		return invalid.New("source", "", "must not be nil")
	case len(targets) == 0:
		return invalid.New("targets", "", "must not be empty: a Target with only a condition is every object")
	}
	s, isStream := source.(watched)
	if !isStream {
		if _, whole := source.Synced(friend.Access{}); !whole {
			return errPartial
		}
	}
	for i := range targets {
		t := &targets[i]
		err := checkTarget(*t)
		switch {
		case err != nil:
		case isStream:
			err = checkStream(s, t)
		case t.Resource == "" && t.Name != "":
			err = invalid.New("targets", t.String(), "must have a resource, because it has a name")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isNil(v reflect.Value) bool { return v.Kind() == reflect.Pointer && v.IsNil() }

// sourceOf returns the key of an event's source in a Mux.
func sourceOf(ev stream.Event) string { return ev.Envelope(friend.Access{}).Source }

// waiter is what is known during a Wait.
type waiter struct {
	targets []*progress
	named   map[object][]*progress // those with a name, by the object
	wide    []*progress            // those without

	gaps    map[string]bool               // sources that have not delivered SYNCED since their GAP, or at all
	synced  map[schema.GroupResource]bool // of each resource that has been seen
	changed bool                          // something, since the last answer
}

// object is an object by name.
type object struct {
	resource        schema.GroupResource
	namespace, name string
}

func newWaiter(targets []Target) *waiter {
	w := &waiter{named: map[object][]*progress{}, gaps: map[string]bool{}, synced: map[schema.GroupResource]bool{}}
	for _, t := range slices.SortedFunc(slices.Values(targets), Target.compare) {
		first := Target{For: Condition{kind: exists}, Resource: t.Resource, Namespace: t.Namespace}
		p := &progress{target: t, objects: map[id]*unmet{}}
		p.needsObjects = t.needsObjects() && !slices.Contains(targets, first)
		w.targets = append(w.targets, p)
		if t.Name == "" {
			w.wide = append(w.wide, p)
		} else {
			o := object{t.groupResource(), t.Namespace, t.Name}
			w.named[o] = append(w.named[o], p)
		}
	}
	return w
}

func (w *waiter) observe(ev stream.Event) error {
	if _, known := w.gaps[sourceOf(ev)]; !known {
		w.gaps[sourceOf(ev)] = true
	}
	resource := ev.Resource.GroupResource()
	if _, seen := w.synced[resource]; !seen {
		if err := w.checkNamespaces(ev.Resource); err != nil {
			return err
		}
		w.synced[resource] = false
	}
	switch ev.Type {
	case stream.Gap:
		w.gaps[sourceOf(ev)] = true
		if ev.Gap != nil && ev.Gap.HistoryLost {
			return w.end(&stream.GapError{Reason: ev.Gap.Reason, From: ev.Gap.From})
		}
	case stream.Synced:
		w.gaps[sourceOf(ev)], w.synced[resource], w.changed = false, true, true
	case stream.Added, stream.Modified, stream.Deleted:
		return w.observeObject(ev)
	}
	return nil
}

// checkNamespaces returns an error about a target of a Mux that no object of a resource can be. A gvr.Resource that a
// program has made may leave out Namespaced, but then it leaves out Verbs, too, which discovery always has.
func (w *waiter) checkNamespaces(r gvr.Resource) error {
	for _, p := range w.targets {
		t := p.target
		switch {
		case t.groupResource() != r.GroupResource():
		case r.Namespaced && t.Name != "" && t.Namespace == "":
			return invalid.New("targets", t.String(), "must have a namespace, because its resource is namespaced")
		case !r.Namespaced && len(r.Verbs) > 0 && t.Namespace != "":
			return invalid.New("targets", t.String(),
				"must not have a namespace, because its resource is cluster-scoped")
		}
	}
	return nil
}

func (w *waiter) observeObject(ev stream.Event) error {
	meta := ev.Meta()
	o := object{ev.Resource.GroupResource(), meta.GetNamespace(), meta.GetName()}
	s := state{event: ev, object: o}
	for _, p := range w.named[o] {
		if err := w.observeState(p, &s); err != nil {
			return err
		}
	}
	for _, p := range w.wide {
		if p.target.stands(o.resource, o.namespace) {
			if err := w.observeState(p, &s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *waiter) observeState(p *progress, s *state) error {
	changed, err := p.observe(s)
	w.changed = w.changed || changed
	return err
}

// answer reports whether all conditions are met, at a moment when everything is synced.
func (w *waiter) answer() (met bool, err error) {
	w.changed, met = false, true
	for _, p := range w.targets {
		if !w.isSynced(p.target) {
			met = false // a follow.Mux has not attached the resource yet
			continue
		}
		if !p.known && len(p.objects) == 0 && p.needsObjects {
			return false, fmt.Errorf("condition: cannot wait for %s of %s: %w", p.target.For, p.target, ErrNoObjects)
		}
		p.known = true
		met = met && p.met()
	}
	return met, nil
}

// isSynced reports whether SYNCED of the target's resource has been delivered; for all resources, of any.
func (w *waiter) isSynced(t Target) bool {
	if t.Resource != "" {
		return w.synced[t.groupResource()]
	}
	for _, synced := range w.synced {
		if synced {
			return true
		}
	}
	return false
}

// needsObjects reports whether there has to be an object from the beginning, unless another target waits for the first
// one.
func (t Target) needsObjects() bool {
	return t.Name == "" && t.For.kind != exists && t.For.kind != gone
}

// end returns the error of a Wait that ends before all conditions are met.
func (w *waiter) end(err error) error {
	all := map[Target]string{}
	var ofEach [][]Target
	for _, p := range w.targets {
		ofEach = append(ofEach, p.unmet(w.isSynced(p.target), all))
	}
	e := &UnmetError{Unmet: map[Target]string{}, Err: err}
	for i := 0; len(e.Unmet) < min(len(all), maxUnmet); i++ { // one of each target, then the next: none hides another
		for _, some := range ofEach {
			if i < len(some) && len(e.Unmet) < maxUnmet {
				e.Unmet[some[i]] = all[some[i]]
			}
		}
	}
	e.More = len(all) - len(e.Unmet)
	return e
}
