package streamtest

import (
	"errors"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// CheckOptions say how the sequence was made. At most one of Now, After and From is
// set; without any it began with a snapshot.
type CheckOptions struct {
	// Now: it began with what existed known, and not delivered.
	Now bool
	// After: it began with what happened after this version. What existed is not
	// known to it, until differences have followed a GAP.
	After string
	// From: it resumed at a position.
	From *Resume

	// IndexNone: it kept no index. After a GAP everything follows as ADDED once more,
	// and what is gone is not delivered.
	IndexNone bool
	// Namespaces: it watched these, each by lists and watches of its own. Empty is
	// the whole cluster, or a cluster-scoped resource.
	Namespaces []string
	// Selected is stream.Options.Select: an object that does not pass is as if it did
	// not exist. Nil passes all. It does not go with IndexNone.
	Selected func(*unstructured.Unstructured) bool
	// Transform is what was done to objects before they were delivered. It gets copies
	// of the history's.
	Transform func(*unstructured.Unstructured)
	// Latest: the events are those of package mux with mux.Latest. Of each object the
	// newest state comes in the place of the oldest one that it stands for, so that
	// states in between, and objects that came and went, may be missing, and only the
	// events of one object are in order. At each SYNCED, GAP and BOOKMARK, and when all
	// is Settled, what was delivered still is what existed then, or came after that.
	Latest bool
	// Settled: the sequence went on until nothing more could come, so that nothing may
	// be missing at its end.
	Settled bool
}

// Resume is a position that a sequence resumes at.
type Resume struct {
	ResourceVersion  string
	ResourceVersions map[string]string // by namespace, where there are several
	// Objects without a ResourceVersion may have been delivered or not.
	Objects []KnownObject
	Partial bool // there may be more
}

// KnownObject is an object that had been delivered up to a position.
type KnownObject struct {
	types.NamespacedName
	UID             types.UID
	ResourceVersion string
}

// partial: the sequence does not know what existed at its start.
func (o *CheckOptions) partial() bool {
	return o.After != "" || o.From != nil && (o.From.Partial || o.IndexNone)
}

// startVersion is empty for a start that reads a snapshot.
func (o *CheckOptions) startVersion(namespace string) string {
	if o.From == nil {
		return o.After
	}
	if rv, ok := o.From.ResourceVersions[namespace]; ok {
		return rv
	}
	return o.From.ResourceVersion
}

func (o *CheckOptions) validate() error {
	starts := 0
	for _, set := range []bool{o.Now, o.After != "", o.From != nil} {
		if set {
			starts++
		}
	}
	switch {
	case starts > 1:
		return errors.New("streamtest: invalid CheckOptions: at most one of Now, After and From must be set")
	case o.IndexNone && o.Selected != nil:
		return errors.New("streamtest: invalid CheckOptions: Selected must be nil with IndexNone")
	}
	return nil
}

// namespaces are those that are watched, each by itself; "" is the whole cluster.
func (o *CheckOptions) namespaces() []string {
	if len(o.Namespaces) == 0 {
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(o.Namespaces)))
}

// Check says whether the sequence of events keeps the promises of package stream,
// given what really happened. It returns nil, or the first promise that each
// namespace's events break, joined: each is a *Violation.
//
// Check is sound: it takes no correct sequence for a broken one. It can't see
// everything: the resourceVersion and the uid are taken as the identity of a
// state, as the server does, and versions have to be numbers. A SYNCED of several
// namespaces has no version: what was delivered has to add up to a state at any
// version that fits, and as each namespace is live before they are SYNCED together,
// its events there need not be marked as inferred. Without Settled, nothing is said
// about what would have followed.
//
// One thing it does call broken no client can help: a server that goes back in
// time and is past the old version again before anyone asks can't be told from
// one that has not. Scripts of tests had better leave time for a probe.
//
// A nil opts is the zero CheckOptions.
func Check(h History, events []stream.Event, opts *CheckOptions) error {
	if opts == nil {
		opts = &CheckOptions{}
	}
	if err := opts.validate(); err != nil {
		return err
	}
	c := &checker{events: events, opts: opts}
	for _, ns := range opts.namespaces() {
		c.sources = append(c.sources, newSource(c, h, ns))
	}
	for i, ev := range events {
		if v := c.wellFormed(i, ev); v != nil {
			return errors.Join(append(c.broken, v)...)
		}
		c.event(i, ev)
	}
	for _, s := range c.sources {
		c.hold(s, (*source).end)
	}
	for i, r := range h.Requests {
		if r.ResourceVersion == "0" && (r.Verb == "list" || r.Verb == "watch") {
			c.broken = append(c.broken, &Violation{monotonic, i, "request to " + r.Verb + " " + r.Resource, "resourceVersion 0 may be any state of the past"})
			break
		}
	}
	return errors.Join(c.broken...)
}

// checker deals the events out to their sources.
type checker struct {
	events  []stream.Event
	opts    *CheckOptions
	sources []*source
	broken  []error
}

// hold holds a source to a rule, unless it has broken one before.
func (c *checker) hold(s *source, rule func(*source) *Violation) {
	if s.broken {
		return
	}
	if v := rule(s); v != nil {
		s.broken = true
		c.broken = append(c.broken, v)
	}
}

func (c *checker) event(i int, ev stream.Event) {
	if ev.Type == stream.Synced {
		due := slices.ContainsFunc(c.sources, func(s *source) bool { return s.broken || s.phase != live || s.begins })
		for _, s := range c.sources {
			c.hold(s, func(s *source) *Violation {
				switch {
				case !due:
					return c.violation(announced, i, "SYNCED follows a snapshot, and there was none")
				case s.phase != live:
					return s.synced(i, ev.ResourceVersion)
				case s.begins: // it says that a watch at the start version is open
					s.begins = false
					return s.upTo(i, ev.ResourceVersion)
				}
				return nil
			})
		}
		return
	}
	for _, s := range c.sources {
		if s.namespace == ev.Namespace {
			c.hold(s, func(s *source) *Violation { return s.event(i, ev) })
		}
	}
}

// wellFormed reports an event whose fields contradict each other.
func (c *checker) wellFormed(i int, ev stream.Event) *Violation {
	isObject := ev.Type == stream.Added || ev.Type == stream.Modified || ev.Type == stream.Deleted
	watched := func(s *source) bool { return s.namespace == ev.Namespace }
	why, first := "", c.events[0].Resource
	switch o := ev.Object; {
	case !isObject && ev.Type != stream.Bookmark && ev.Type != stream.Synced && ev.Type != stream.Gap:
		why = "there is no such type"
	case ev.Resource.GroupVersionResource != first.GroupVersionResource:
		why = "it is of another resource than the first event, " + first.String()
	case ev.Type != stream.Synced && !slices.ContainsFunc(c.sources, watched):
		why = "namespace " + strconv.Quote(ev.Namespace) + " is not watched by itself"
	case isObject != (o != nil):
		why = "an object comes with ADDED, MODIFIED and DELETED only"
	case isObject && o.GetResourceVersion() != ev.ResourceVersion:
		why = "its version is not the object's, " + strconv.Quote(o.GetResourceVersion())
	case isObject && ev.Namespace != "" && o.GetNamespace() != ev.Namespace:
		why = "its object is of another namespace, " + strconv.Quote(o.GetNamespace())
	case isObject && ev.Resource.Kind != "" && c.opts.Transform == nil && o.GroupVersionKind() != ev.Resource.GroupVersionKind():
		why = "its object is of another kind, " + o.GroupVersionKind().String()
	case ev.Coalesced != 0 && (!isObject || ev.Coalesced < 0 || !c.opts.Latest):
		why = "there is nothing that it could stand for besides itself"
	case ev.Type != stream.Gap && ev.Gap != nil:
		why = "only GAP has details"
	case ev.Type == stream.Gap && ev.ResourceVersion != "":
		why = "a GAP is at no version"
	case ev.Type == stream.Synced && (ev.ResourceVersion == "") != (len(c.sources) > 1):
		why = "SYNCED has a version, unless it is of several namespaces"
	}
	if why == "" {
		return nil
	}
	return c.violation(truthful, i, why)
}

func (c *checker) violation(promise string, i int, why string) *Violation {
	return &Violation{promise, i, textAt(c.events, i), why}
}
