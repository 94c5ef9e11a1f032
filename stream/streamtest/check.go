package streamtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

// CheckOptions say how a sequence was made. At most one of Now, After and From may be set; without them the sequence
// began with a snapshot.
type CheckOptions struct {
	// Now: the sequence began by reading what existed, without delivering it.
	Now bool
	// After: the sequence began with the changes after this version. Objects that existed then, and have not changed
	// since, need not be delivered.
	After string
	// From: the sequence resumed at this position.
	From *checkpoint.Position
	// UntilSynced: the run had stream.UntilSynced, so that SYNCED is its last event. From a position it delivers the
	// differences without a GAP, unless the position is within a snapshot, Partial or Unclean. Complete then means that
	// it reached SYNCED. Now and After must not be set.
	UntilSynced bool

	// Namespaces are watched separately, each by its own lists and watches. Empty means the whole cluster, or a
	// cluster-scoped resource.
	Namespaces []string
	// Selected is stream.Options.Select: an object that does not pass counts as nonexistent. Nil passes all.
	Selected func(*unstructured.Unstructured) bool
	// Transform is applied to copies of the history's objects, as it was to the objects before delivery.
	Transform func(*unstructured.Unstructured)
	// Latest: the events are those of a Mux with mux.Latest. The newest state of each object takes the place of the
	// oldest one that it replaces. So states may be missing, and so may objects that came and went, and only the
	// events of one object are in order. At each SYNCED, GAP and BOOKMARK, and at the end if Complete, the delivered
	// objects are those that existed then, or newer states.
	Latest bool
	// Complete: the recording ended after everything had been delivered, so that nothing may be missing at its end.
	Complete bool
}

func (o *CheckOptions) validate() error {
	now, after, from := o.Now, o.After != "", o.From != nil
	if now && after || now && from || after && from {
		return invalid.New("Now, After and From", "", "must be at most one of them")
	}
	if o.UntilSynced && (now || after) {
		return invalid.New("UntilSynced", "true", "must not be combined with Now or After")
	}
	return nil
}

// namespaces returns the namespaces that are watched separately; "" is the whole cluster.
func (o *CheckOptions) namespaces() []string {
	if len(o.Namespaces) == 0 {
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(o.Namespaces)))
}

// The promises that Check checks.
const (
	ordered   = "ordered"   // live events come in the order of the server's versions
	unique    = "unique"    // no uid, resourceVersion and type twice, except after a GAP that says why
	complete  = "complete"  // at SYNCED all objects are known; from there on no change is missing
	announced = "announced" // a break is a GAP with its reason and start, then differences, then SYNCED
	removed   = "removed"   // every removal is delivered, by uid, before another object of that name
	truthful  = "truthful"  // no event or content is invented, and no failure looks like a deletion
	resumed   = "resumed"   // a resumed sequence delivers what changed since, and nothing else
	monotonic = "monotonic" // no older state without GAP(rewound); no request at resourceVersion 0
)

// Violation is one broken promise.
type Violation struct {
	// Promise is "ordered", "unique", "complete", "announced", "removed", "truthful", "resumed" or "monotonic".
	Promise string
	// Index is that of the event, or of the request. It is the number of events if something is missing at the end.
	Index int
	What  string // the event as stream.Event.String has it, or the request
	Why   string // what is wrong with it, in one clause
}

// Error returns a line such as
//
//	4 SYNCED @4: breaks "complete": door@2 existed, and is missing
func (v *Violation) Error() string {
	return fmt.Sprintf("%d %s: breaks %q: %s", v.Index, v.What, v.Promise, v.Why)
}

// Check checks that a sequence of events keeps the promises of package stream, given what really happened. It returns
// nil or a joined error: for each namespace the first promise that its events break, a *[Violation]. A nil opts is
// the zero CheckOptions.
//
// Check accepts every correct sequence, with one exception: a server that goes back in time, and passes the old version
// again before anybody sends a request, looks as if it never went back. No client can detect this, and Check reports it
// all the same. Let the scripts of tests leave time for a request after a rewind.
//
// Check does not find every error:
//   - It identifies a state by resourceVersion and uid, as the server does. Versions must be numbers.
//   - SYNCED has no version if it is of several namespaces. Check then accepts the delivered objects of a namespace if
//     they existed together at any version, and events before that SYNCED need not be marked as inferred.
//   - Without Complete, Check does not report events that are missing at the end.
func Check(h History, events []stream.Event, opts *CheckOptions) error {
	if opts == nil {
		opts = &CheckOptions{}
	}
	if err := cmp.Or(h.Err, opts.validate()); err != nil {
		return err
	}
	events, err := decoded(events)
	if err != nil {
		return err
	}
	c := &checker{seq: &sequence{events, opts, opts.namespaces()}}
	for _, ns := range c.seq.namespaces {
		c.sources = append(c.sources, newSource(c.seq, h, ns))
	}
	for i, ev := range events {
		if v := cmp.Or(c.seq.wellFormed(i, ev), c.seq.over(i)); v != nil {
			return errors.Join(append(c.broken, v)...)
		}
		c.event(i, ev)
	}
	for _, s := range c.sources {
		c.apply(s, (*source).end)
	}
	for i, r := range h.Requests {
		if r.ResourceVersion == "0" && (r.Verb == "list" || r.Verb == "watch") {
			c.broken = append(c.broken, &Violation{monotonic, i, "request to " + r.Verb + " " + r.Resource,
				"resourceVersion 0 permits any past state"})
			break
		}
	}
	return errors.Join(c.broken...)
}

// checker distributes the events to their sources.
type checker struct {
	seq     *sequence
	sources []*source
	broken  []error
}

// apply applies a rule to a source that has broken none yet.
func (c *checker) apply(s *source, rule func(*source) *Violation) {
	if v := s.apply(rule); v != nil {
		c.broken = append(c.broken, v)
	}
}

func (c *checker) event(i int, ev stream.Event) {
	due := slices.ContainsFunc(c.sources, (*source).awaitsSynced)
	for _, s := range c.sources {
		switch {
		case ev.Type == stream.Synced:
			c.apply(s, func(s *source) *Violation { return s.syncedOf(i, ev.ResourceVersion, due) })
		case s.past.namespace == ev.Namespace:
			c.apply(s, func(s *source) *Violation { return s.event(i, ev) })
		}
	}
}

// decoded returns events with objects instead of JSON.
func decoded(events []stream.Event) ([]stream.Event, error) {
	events = slices.Clone(events)
	for i, ev := range events {
		if ev.JSON == nil {
			continue
		}
		o, err := ev.Decode()
		if err != nil {
			return nil, &Violation{"truthful", i, ev.String(), err.Error()}
		}
		events[i].Object, events[i].JSON = o, nil
	}
	return events, nil
}

// sequence is what is checked, and how it was made. Nothing changes it.
type sequence struct {
	events     []stream.Event
	opts       *CheckOptions
	namespaces []string // watched separately
}

// joint reports whether SYNCED is of several namespaces, each of which is live before it.
func (q *sequence) joint() bool { return len(q.namespaces) > 1 }

// follows reports whether a change is delivered after event i.
func (q *sequence) follows(i int, e *entry) bool {
	return slices.ContainsFunc(q.events[i:], func(ev stream.Event) bool {
		return ev.Object != nil && !ev.Inferred && ev.Type == e.kind && keyOf(ev.Object) == e.key &&
			refOf(ev.Object) == e.ref
	})
}

// wellFormed reports an event whose fields contradict each other.
func (q *sequence) wellFormed(i int, ev stream.Event) *Violation {
	isObject := ev.Type == stream.Added || ev.Type == stream.Modified || ev.Type == stream.Deleted
	why, first := "", q.events[0].Resource
	switch o := ev.Object; {
	case !isObject && ev.Type != stream.Bookmark && ev.Type != stream.Synced && ev.Type != stream.Gap:
		why = "unknown type"
	case ev.Resource.GroupVersionResource != first.GroupVersionResource:
		why = "the first event is of another resource, " + first.String()
	case ev.Type != stream.Synced && !slices.Contains(q.namespaces, ev.Namespace):
		why = "namespace " + strconv.Quote(ev.Namespace) + " is not watched separately"
	case isObject != (o != nil):
		why = "ADDED, MODIFIED and DELETED must have an object, and no other type may"
	case isObject && o.GetResourceVersion() != ev.ResourceVersion:
		why = "the object has another version, " + strconv.Quote(o.GetResourceVersion())
	case isObject && ev.Namespace != "" && o.GetNamespace() != ev.Namespace:
		why = "the object is in another namespace, " + strconv.Quote(o.GetNamespace())
	case isObject && ev.Resource.Kind != "" && q.opts.Transform == nil &&
		o.GroupVersionKind() != ev.Resource.GroupVersionKind():
		why = "the object is of another kind, " + o.GroupVersionKind().String()
	case ev.Coalesced() != 0 && (!isObject || ev.Coalesced() < 0 || !q.opts.Latest):
		why = "only object events of a sequence with Latest may be coalesced"
	case ev.Type != stream.Gap && ev.Gap != nil:
		why = "only GAP may have details"
	case ev.Type == stream.Gap && ev.ResourceVersion != "":
		why = "GAP must have no version"
	case ev.Type == stream.Synced && (ev.ResourceVersion == "") != q.joint():
		why = "SYNCED must have a version unless it is of several namespaces"
	}
	return q.violation(truthful, i, why)
}

// over reports an event after the end of a run until SYNCED.
func (q *sequence) over(i int) *Violation {
	if q.opts.UntilSynced && i > 0 && q.events[i-1].Type == stream.Synced {
		return q.violation(announced, i, "the run ends at SYNCED")
	}
	return nil
}

// violation describes event i, or the end of the recording. It returns nil if nothing is wrong: why is empty.
func (q *sequence) violation(promise string, i int, why string) *Violation {
	if why == "" {
		return nil
	}
	what := "the end"
	if i < len(q.events) {
		what = q.events[i].String()
	}
	return &Violation{promise, i, what, why}
}
