package condition

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

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

// Target names an object.
type Target struct {
	Resource  schema.GroupResource // may be empty if Wait has a Stream or a Sequence, which watch one resource
	Namespace string               // empty for an object without a namespace
	Name      string
}

// String returns the target as "deployments.apps shop/web".
func (t Target) String() string {
	if t.Namespace == "" {
		return t.Resource.String() + " " + t.Name
	}
	return t.Resource.String() + " " + t.Namespace + "/" + t.Name
}

func (t Target) compare(other Target) int {
	return cmp.Or(cmp.Compare(t.Resource.Group, other.Resource.Group),
		cmp.Compare(t.Resource.Resource, other.Resource.Resource),
		cmp.Compare(t.Namespace, other.Namespace), cmp.Compare(t.Name, other.Name))
}

// Wait runs source, which is a *stream.Stream, a *stream.Sequence, a *mux.Mux or a *follow.Mux, until the newest state
// of every target meets the condition. Without targets, every object of the source is one. The package comment says
// exactly when the condition is met.
//
// Wait loops over source.Events(ctx), so nothing else can run the source meanwhile. Bound the time with ctx. With
// a Sequence that ends at SYNCED ([stream.UntilSynced]), Wait checks once and does not wait.
//
// Wait returns an [*stream.OptionsError] if an argument is invalid or [Condition.Met] returns one, an error that is
// [ErrNoObjects] if there is nothing to wait for, and otherwise an [*UnmetError], which wraps the cause of ctx, the
// error of the sequence, a *stream.GapError (history is lost) or stream.ErrUnmet (the sequence has ended). It does not
// return the objects.
func Wait(ctx context.Context, source sequence, c Condition, targets ...Target) error {
	targets = slices.Clone(targets)
	if err := check(ctx, source, c, targets); err != nil {
		return err
	}
	w := &waiter{
		condition: c, groups: map[Target]*group{},
		objects: map[id]*unmet{}, gaps: map[string]bool{}, synced: map[schema.GroupResource]bool{},
	}
	for _, t := range targets {
		w.groups[t] = &group{}
	}
	for ev, err := range source.Events(ctx) {
		if err != nil {
			return w.end(err)
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
	return w.end(cmp.Or(context.Cause(ctx), stream.ErrUnmet))
}

// check returns an error about an argument. It completes the targets.
func check(ctx context.Context, source sequence, c Condition, targets []Target) error {
	switch {
	case ctx == nil:
		return invalid.New("ctx", "", "must not be nil")
	case source == nil:
		return invalid.New("source", "", "must not be nil")
	case c.kind == "":
		return errZero
	}
	if s, ok := source.(watched); ok {
		return checkStream(s, c, targets)
	}
	if _, whole := source.Synced(friend.Access{}); !whole {
		return errPartial
	}
	for _, t := range targets {
		if t.Resource.Resource == "" || t.Name == "" {
			return invalid.New("targets", t.String(), "must have a resource and a name")
		}
	}
	return nil
}

// watched is a *stream.Stream or a *stream.Sequence.
type watched interface {
	Key() string
	Resource() gvr.Resource
	Watched(friend.Access) (stream.Options, stream.Run, error)
}

func checkStream(s watched, c Condition, targets []Target) error {
	o, run, err := s.Watched(friend.Access{})
	switch {
	case err != nil:
		return err
	case run.Start != stream.Start{} || run.Checkpoint != nil:
		return errPartial
	case o.Objects == stream.Metadata && c.kind == status:
		return invalid.New("source", s.Key(), "must deliver Full or Raw objects, because Metadata has no conditions")
	}
	for i := range targets {
		t := &targets[i]
		t.Resource = cmp.Or(t.Resource, s.Resource().GroupResource())
		if t.Name == "" {
			return invalid.New("targets", t.String(), "must have a name")
		}
		if s.Resource().Namespaced != (t.Namespace != "") {
			return invalid.New("targets", t.String(), "must have a namespace exactly if its resource is namespaced")
		}
		if t.Resource != s.Resource().GroupResource() || o.Name != "" && t.Name != o.Name ||
			!slices.Contains(o.Namespaces, t.Namespace) && !slices.Contains(o.Namespaces, "") {
			return invalid.New("targets", t.String(), "must be among what the Stream watches, "+s.Key())
		}
	}
	return nil
}

// sourceOf returns the key of an event's source in a Mux.
func sourceOf(ev stream.Event) string { return ev.Envelope(friend.Access{}).Source }

// maxUnmet is how many targets an UnmetError names.
const maxUnmet = 10

// unmet is a target that does not meet the condition.
type unmet struct {
	target Target
	reason string
}

// waiter is what is known during a Wait.
type waiter struct {
	condition Condition
	groups    map[Target]*group // what is waited for; empty means every object
	all       group             // every object, if groups is empty
	objects   map[id]*unmet     // nil if the object meets the condition
	gaps      map[string]bool   // sources that have not delivered SYNCED since their GAP, or at all
	synced    map[schema.GroupResource]bool
	answered  bool // everything has been synced once
	changed   bool // something, since the last answer
}

// id identifies an object of a source.
type id struct{ source, uid string }

// group counts the objects of a target.
type group struct{ objects, unmet int }

func (w *waiter) observe(ev stream.Event) error {
	if _, known := w.gaps[sourceOf(ev)]; !known {
		w.gaps[sourceOf(ev)] = true
	}
	switch ev.Type {
	case stream.Gap:
		w.gaps[sourceOf(ev)] = true
		if ev.Gap != nil && ev.Gap.HistoryLost {
			return w.end(&stream.GapError{Reason: ev.Gap.Reason, From: ev.Gap.From})
		}
	case stream.Synced:
		w.gaps[sourceOf(ev)], w.synced[ev.Resource.GroupResource()], w.changed = false, true, true
	case stream.Added, stream.Modified, stream.Deleted:
		return w.observeObject(ev)
	}
	return nil
}

func (w *waiter) observeObject(ev stream.Event) error {
	meta := ev.Meta()
	t := Target{ev.Resource.GroupResource(), meta.GetNamespace(), meta.GetName()}
	g := &w.all
	if len(w.groups) > 0 {
		if g = w.groups[t]; g == nil {
			return nil
		}
	}
	uid := cmp.Or(string(meta.GetUID()), t.Namespace+"/"+t.Name) // client-go's fake sets no uid
	key := id{sourceOf(ev), strings.Clone(uid)}                  // a part of the event's text would retain all of it
	before, known := w.objects[key]
	if !known && w.condition.kind == gone && w.answered {
		return nil // it has been created since
	}
	if known {
		g.add(-1, before)
		delete(w.objects, key)
	}
	w.changed = true
	if ev.Type == stream.Deleted {
		return nil
	}
	now, err := w.evaluate(ev, t)
	if err != nil {
		return err
	}
	w.objects[key] = now
	g.add(1, now)
	return nil
}

func (g *group) add(n int, u *unmet) {
	g.objects += n
	if u != nil {
		g.unmet += n
	}
}

// evaluate returns nil if the object meets the condition.
func (w *waiter) evaluate(ev stream.Event, t Target) (*unmet, error) {
	var problem string
	switch w.condition.kind {
	case exists:
		return nil, nil
	case gone:
		problem = "exists"
	default:
		o, err := ev.Decode()
		if err != nil {
			problem = "cannot be decoded"
		} else if problem, err = w.condition.check(o); err != nil {
			return nil, fmt.Errorf("%w (%s)", err, t)
		}
	}
	if problem == "" {
		return nil, nil
	}
	t.Namespace, t.Name = strings.Clone(t.Namespace), strings.Clone(t.Name)
	return &unmet{t, problem}, nil
}

// answer reports whether the condition is met, at a moment when everything is synced.
func (w *waiter) answer() (met bool, err error) {
	for t := range w.groups {
		if !w.synced[t.Resource] {
			return false, nil // a follow.Mux has not attached the resource yet
		}
	}
	first := !w.answered
	w.answered, w.changed = true, false
	if len(w.groups) > 0 {
		for _, g := range w.groups {
			if !w.met(g) {
				return false, nil
			}
		}
		return true, nil
	}
	if first && len(w.objects) == 0 && w.condition.kind != exists && w.condition.kind != gone {
		return false, fmt.Errorf("condition: cannot wait for %s: %w", w.condition, ErrNoObjects)
	}
	return w.met(&w.all), nil
}

func (w *waiter) met(g *group) bool {
	if w.condition.kind == gone {
		return g.objects == 0
	}
	return g.objects > 0 && g.unmet == 0
}

// end returns the error of a Wait that ends before the condition is met.
func (w *waiter) end(err error) error {
	all := map[Target]string{}
	for _, u := range w.objects {
		if u != nil {
			all[u.target] = u.reason
		}
	}
	for t, g := range w.groups {
		switch {
		case g.objects > 0:
		case !w.synced[t.Resource]:
			all[t] = "is not known yet"
		case w.condition.kind != gone:
			all[t] = missing
		}
	}
	e := &UnmetError{Condition: w.condition, Unmet: all, Err: err}
	if len(all) > maxUnmet {
		e.Unmet, e.More = map[Target]string{}, len(all)-maxUnmet
		for _, t := range slices.SortedFunc(maps.Keys(all), Target.compare)[:maxUnmet] {
			e.Unmet[t] = all[t]
		}
	}
	return e
}
