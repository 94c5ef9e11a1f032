package main

import (
	"cmp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// history is the truth. Whenever etcd is restored from a copy, an epoch begins in which the changes after the copy
// never happened.
type history struct {
	changes []change // by epoch and revision
	epochs  []epoch
	tops    []top         // of etcd, in order; none if that is not known
	slack   time.Duration // by which the clocks of the truth and of the reports may differ
}

func newHistory(truth []change, epochs []epoch) *history {
	h := &history{changes: slices.Clone(truth), epochs: epochs}
	slices.SortStableFunc(h.changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Revision, b.Revision))
	})
	return h
}

// top is the highest revision that etcd has had up to a time.
type top struct {
	at       time.Time
	revision int64
}

// topAt returns the highest revision that a report at this time may be of, or false if that is not known.
func (h *history) topAt(at time.Time) (revision int64, known bool) {
	for _, t := range h.tops {
		if t.at.After(at.Add(seenLate)) {
			break
		}
		revision = t.revision
	}
	return revision, len(h.tops) > 0
}

// newest returns the newest epoch that a report at this time may be from.
func (h *history) newest(at time.Time) int {
	for e := len(h.epochs) - 1; e > 0; e-- {
		if !h.epochs[e].At.After(at.Add(h.slack)) {
			return e
		}
	}
	return 0
}

// scope says which objects a client watches.
type scope struct {
	Resources  []string           // such as "widgets.chaos.example.com"; none means all
	Namespaces []string           // none means all; "" is that of cluster-scoped objects
	Selects    k8slabels.Selector // nil means all labels
}

func (s scope) has(c change) bool {
	return (len(s.Resources) == 0 || slices.Contains(s.Resources, c.Resource)) &&
		(len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, c.Namespace))
}

// cell is what is covered together: the objects of one resource in one namespace.
type cell struct{ resource, namespace string }

// fact is a change as a client sees it. An object that leaves the client's selector is deleted, one that enters it is
// added.
type fact struct {
	change     // as the client sees it
	last   int // the last epoch in which it happened
}

// at reports whether it happened in the timeline of an epoch.
func (f *fact) at(epoch int) bool { return f.Epoch <= epoch && epoch <= f.last }

// identity is how a report names a change.
type identity struct {
	uid     types.UID
	version int64
	gone    bool
}

func (f *fact) identity() identity { return identity{f.UID, f.Revision, f.Kind == deleted} }

// seenLate is how long after a change the harness may see it, on a busy machine.
const seenLate = time.Second

// precedes reports whether a change may have happened before a report.
func (h *history) precedes(f *fact, at time.Time) bool {
	return f.Reported || !f.At.After(at.Add(max(h.slack, seenLate)))
}

// view is the truth in a client's scope.
type view struct {
	history   *history
	facts     map[cell][]*fact
	byID      map[identity][]*fact // several if epochs used a revision twice
	uids      map[types.UID]bool   // that ever were in scope
	timelines map[timeline][]*fact
}

type timeline struct {
	cell  cell
	epoch int
}

func (h *history) view(s scope) *view {
	v := &view{
		history: h, facts: map[cell][]*fact{}, byID: map[identity][]*fact{}, uids: map[types.UID]bool{},
		timelines: map[timeline][]*fact{},
	}
	inside := map[types.UID]bool{}
	current := 0
	for _, c := range h.changes {
		for ; current < c.Epoch; current++ {
			inside = v.insideAt(current+1, h.epochs[current+1].After)
		}
		if !s.has(c) {
			continue
		}
		if k := (cell{c.Resource, c.Namespace}); v.facts[k] == nil {
			v.facts[k] = []*fact{}
		}
		before := inside[c.UID]
		now := c.Kind != deleted && (s.Selects == nil || s.Selects.Matches(k8slabels.Set(c.Labels)))
		inside[c.UID] = now
		switch {
		case before && now:
			c.Kind = modified
		case now:
			c.Kind = added
		case before:
			c.Kind = deleted
		default:
			continue
		}
		v.enter(c)
	}
	return v
}

func (v *view) enter(c change) {
	f := &fact{change: c, last: c.Epoch}
	for f.last+1 < len(v.history.epochs) && v.history.epochs[f.last+1].After >= c.Revision {
		f.last++
	}
	k := cell{c.Resource, c.Namespace}
	v.facts[k] = append(v.facts[k], f)
	v.byID[f.identity()] = append(v.byID[f.identity()], f)
	v.uids[c.UID] = true
}

func (v *view) insideAt(epoch int, revision int64) map[types.UID]bool {
	inside := map[types.UID]bool{}
	for _, facts := range v.facts {
		for _, f := range facts {
			if f.at(epoch) && f.Revision <= revision {
				inside[f.UID] = f.Kind != deleted
			}
		}
	}
	return inside
}

// timeline returns the changes of a cell that happened in the timeline of an epoch, by revision.
func (v *view) timeline(k cell, epoch int) []*fact {
	key := timeline{k, epoch}
	if v.timelines[key] == nil {
		facts := []*fact{}
		for _, f := range v.facts[k] {
			if f.at(epoch) {
				facts = append(facts, f)
			}
		}
		v.timelines[key] = facts
	}
	return v.timelines[key]
}

// between returns the changes after one revision up to another.
func (v *view) between(k cell, epoch int, from, to int64) []*fact {
	facts := v.timeline(k, epoch)
	i := sort.Search(len(facts), func(i int) bool { return facts[i].Revision > from })
	j := sort.Search(len(facts), func(i int) bool { return facts[i].Revision > to })
	return facts[i:max(i, j)]
}

// end returns the revision of the last change of a cell in an epoch, or 0.
func (v *view) end(k cell, epoch int) int64 {
	if facts := v.timeline(k, epoch); len(facts) > 0 {
		return facts[len(facts)-1].Revision
	}
	return 0
}

// latest returns the time of the last change of a resource.
func (v *view) latest(resource string) (at time.Time) {
	for _, k := range v.cells(resource) {
		for _, f := range v.facts[k] {
			if f.At.After(at) {
				at = f.At
			}
		}
	}
	return at
}

// state returns the objects of a cell at a revision, by uid, with their last changes.
func (v *view) state(k cell, epoch int, revision int64) map[types.UID]*fact {
	objects := map[types.UID]*fact{}
	for _, f := range v.between(k, epoch, -1, revision) {
		if f.Kind == deleted {
			delete(objects, f.UID)
		} else {
			objects[f.UID] = f
		}
	}
	return objects
}

// cells returns the cells of a resource, sorted.
func (v *view) cells(resource string) (cells []cell) {
	for k := range v.facts {
		if k.resource == resource {
			cells = append(cells, k)
		}
	}
	slices.SortFunc(cells, func(a, b cell) int { return strings.Compare(a.namespace, b.namespace) })
	return cells
}

// resources returns the resources in scope, sorted.
func (v *view) resources() (resources []string) {
	for k := range v.facts {
		resources = append(resources, k.resource)
	}
	slices.Sort(resources)
	return slices.Compact(resources)
}

// find returns the change that a report is about, in the newest epoch up to the given one, and whether there is one.
// Without a version there is none.
func (v *view) find(r report, newest int) (*fact, int) {
	best, at := (*fact)(nil), -1
	for _, f := range v.byID[identityOf(r)] {
		if e := min(f.last, newest); f.Epoch <= newest && e > at {
			best, at = f, e
		}
	}
	return best, at
}

func identityOf(r report) identity {
	return identity{r.UID, revision(r.ResourceVersion), r.Kind == deleted}
}

// revision returns a resourceVersion as a number, or -1 if it is none.
func revision(resourceVersion string) int64 {
	n, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
