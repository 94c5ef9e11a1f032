package streamtest

import (
	"errors"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
)

// CheckOptions say how the sequence was made, so that Check knows what it has to
// tell. At most one of Now, After and From is set; without any it began with a
// snapshot.
type CheckOptions struct {
	// Now: it began with what existed known, and not told.
	Now bool
	// After: it began with what happened after this version. What existed is not
	// known to it, until a GAP has told the differences.
	After string
	// From: it went on from a position.
	From *Resume

	// IndexNone: it kept no index, so that after a GAP everything follows as ADDED
	// once more, and what is gone is not told.
	IndexNone bool
	// Namespaces: it watched these, each by lists and watches of its own. Empty is
	// the whole cluster, or a cluster-scoped resource.
	Namespaces []string
	// Selected is stream.Options.Select: an object that does not pass is as if it did
	// not exist. Nil passes all.
	Selected func(*unstructured.Unstructured) bool
	// Transform is what was done to objects before they were told. It gets copies of
	// the history's.
	Transform func(*unstructured.Unstructured)
	// Latest: events that were superseded before they were told may be missing, as
	// package mux leaves them out with mux.Latest: states in between, and objects that
	// came and went; and SYNCEDs that a GAP had overtaken. What was told still has to add
	// up to what existed, at each SYNCED, GAP and BOOKMARK and when all is Settled, and
	// to come in order. Coalesced is not held against what is missing.
	Latest bool
	// Settled: the sequence went on until nothing more could come, so that it must
	// have told all.
	Settled bool
}

// Resume is a position that a sequence goes on from.
type Resume struct {
	ResourceVersion  string
	ResourceVersions map[string]string // by namespace, where there are several
	Objects          []KnownObject
	// Unacked may or may not have been told besides. Their end may be told.
	Unacked []KnownObject
}

// KnownObject is an object that had been told up to a position.
type KnownObject struct {
	types.NamespacedName
	UID             types.UID
	ResourceVersion string
}

func (o *CheckOptions) selected(u *unstructured.Unstructured) bool {
	return o.Selected == nil || o.Selected(u)
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
	if starts > 1 {
		return errors.New("streamtest: of Now, After and From only one can be how a sequence began")
	}
	return nil
}

// Check says whether the sequence of events keeps the promises of package stream,
// given what really happened. It returns nil, or all that is broken, joined: each
// is a *Violation of one of this package's errors. After a violation it goes on
// as if the sequence had been right up to there, so that what one mistake brings
// about later is seldom told as another.
//
// Check is sound: it takes no correct sequence for a broken one. It can't see
// everything: the resourceVersion and the uid are taken as the identity of a
// state, as the server does; where a SYNCED has no version, as that of several
// namespaces, what was told has to add up to a state at any version that fits,
// and as each namespace goes on by itself before they are SYNCED together, its
// events there need not be marked as inferred. Without Settled, nothing is said
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
	c := &checker{events: events, latest: opts.Latest}
	for _, ns := range namespacesOf(opts) {
		c.sources = append(c.sources, newSource(c, h, ns, opts))
	}
	for i, ev := range events {
		c.event(i, ev)
	}
	for _, s := range c.sources {
		s.end()
	}
	return joined(append(c.broken, requestsBackInTime(h.Requests)...))
}

func namespacesOf(opts *CheckOptions) []string {
	if len(opts.Namespaces) == 0 {
		return []string{""}
	}
	namespaces := slices.Clone(opts.Namespaces)
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

func requestsBackInTime(requests []Request) []*Violation {
	var broken []*Violation
	for i, r := range requests {
		if r.ResourceVersion == "0" && (r.Verb == "list" || r.Verb == "watch") {
			broken = append(broken, &Violation{Promise: ErrBackInTime, Index: i,
				What: "request to " + r.Verb + " " + r.Resource, Why: "resourceVersion 0 may be any state of the past"})
		}
	}
	return broken
}

// checker deals the events out to their sources.
type checker struct {
	events  []stream.Event
	latest  bool
	sources []*source
	broken  []*Violation
}

func (c *checker) report(promise error, i int, why string) {
	c.broken = append(c.broken, &Violation{Promise: promise, Index: i, What: textAt(c.events, i), Why: why})
}

func (c *checker) event(i int, ev stream.Event) {
	if !c.wellFormed(i, ev) {
		return
	}
	if ev.Type == stream.Synced {
		if s := c.sources[0]; ev.ResourceVersion == "" && len(c.sources) == 1 && s.versioned {
			c.report(ErrSilent, i, "it does not say up to which version")
		}
		c.synced(i, ev)
		return
	}
	for _, s := range c.sources {
		if s.namespace == ev.Namespace {
			s.event(i, ev)
			return
		}
	}
	c.report(ErrInvented, i, "namespace "+strconv.Quote(ev.Namespace)+" is not watched by itself")
}

// synced is for all sources; one that has no gap open only goes along.
func (c *checker) synced(i int, ev stream.Event) {
	due := false
	for _, s := range c.sources {
		due = due || s.phase != live || s.begins
	}
	if !due {
		c.report(ErrSilent, i, "SYNCED follows a snapshot, and there was none")
	}
	for _, s := range c.sources {
		switch {
		case s.phase != live:
			s.synced(i, ev)
		case !due || s.begins:
			s.confirmed(i, ev, due)
		}
	}
}

// wellFormed reports events whose fields contradict each other.
func (c *checker) wellFormed(i int, ev stream.Event) bool {
	why := ""
	if ev.Coalesced != 0 && (ev.Object == nil || ev.Coalesced < 0 || !c.latest) {
		c.report(ErrInvented, i, "there is nothing that it could stand for besides itself")
	}
	if r := c.events[0].Resource; ev.Resource.GroupVersionResource != r.GroupVersionResource {
		c.report(ErrInvented, i, "it is of another resource than the first event, "+r.String())
	}
	switch ev.Type {
	case stream.Added, stream.Modified, stream.Deleted:
		switch {
		case ev.Object == nil:
			why = "it has no object"
		case ev.Object.GetResourceVersion() != ev.ResourceVersion:
			why = "its version is not the object's, " + strconv.Quote(ev.Object.GetResourceVersion())
		case ev.Namespace != "" && ev.Object.GetNamespace() != ev.Namespace:
			why = "its object is of another namespace, " + strconv.Quote(ev.Object.GetNamespace())
		case ev.Gap != nil:
			why = "only GAP has details"
		}
		if why != "" && ev.Object != nil {
			c.report(ErrInvented, i, why)
			return true
		}
	case stream.Bookmark, stream.Synced, stream.Gap:
		switch {
		case ev.Object != nil:
			why = "it is not about an object"
		case ev.Type == stream.Gap && ev.ResourceVersion != "":
			why = "a GAP is at no version"
		case ev.Type != stream.Gap && ev.Gap != nil:
			why = "only GAP has details"
		case ev.Type == stream.Synced && ev.ResourceVersion != "" && len(c.sources) > 1:
			why = "a SYNCED of several namespaces has no version"
		}
	default:
		why = "there is no such type"
	}
	if why != "" {
		c.report(ErrInvented, i, why)
	}
	return why == ""
}
