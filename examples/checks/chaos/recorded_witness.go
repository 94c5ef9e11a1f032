package main

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// nothing is the span of a history that is made of records only.
var nothing = span{math.MaxInt64, math.MaxInt64}

// witness returns a history with what records report of times that it does not know: each version that one reports
// existed, and a deletion that one reports happened. So did that of an object that a list of another record lacks. Of
// what none reports it knows nothing.
func witness(h *history, known span, records ...*recordFile) *history {
	w := &witnesses{
		history: h, known: known, changes: map[identity]change{}, states: map[types.UID]int64{},
		ended: map[types.UID]bool{}, about: map[types.UID]report{},
	}
	for _, c := range h.changes {
		id := identity{c.UID, c.Revision, c.Kind == deleted}
		w.changes[id] = c
		w.note(id)
		w.about[c.UID] = report{
			At: c.At, Kind: c.Kind, Resource: c.Resource, Namespace: c.Namespace, Name: c.Name, UID: c.UID,
		}
	}
	var found []claim
	for _, r := range records {
		w.selected = w.selected || r.subject.Scope.Selects != nil
		w.take(r.reports)
	}
	for _, r := range records {
		found = append(found, claimsOf(r.reports)...)
	}
	w.takeLists(records)
	w.end(found)
	w.compareLists()
	out := newHistory(nil, h.epochs)
	for _, c := range w.changes {
		out.changes = append(out.changes, c)
	}
	out = newHistory(out.changes, h.epochs)
	out.slack = h.slack
	return out
}

type witnesses struct {
	history  *history
	known    span
	selected bool
	changes  map[identity]change
	states   map[types.UID]int64 // the highest version of each object that is no deletion
	ended    map[types.UID]bool
	about    map[types.UID]report // any report of each object, or what the history has of it
	lists    []list
}

func (w *witnesses) note(id identity) {
	if id.gone {
		w.ended[id.uid] = true
	} else {
		w.states[id.uid] = max(w.states[id.uid], id.version)
	}
}

// take adds the changes with exact versions.
func (w *witnesses) take(reports []report) {
	for _, r := range reports {
		if r.UID == "" {
			continue
		}
		w.about[r.UID] = r
		id := identityOf(r)
		if r.Kind == deleted && r.Inferred || id.version < 0 || w.known.has(id.version) {
			continue
		}
		w.add(r, id.version)
	}
}

// add adds a change at a version, unless it is there. Its time is that of the first report.
func (w *witnesses) add(r report, version int64) {
	id := identity{r.UID, version, r.Kind == deleted}
	before, found := w.changes[id]
	if found && (before.At.IsZero() || !r.At.Before(before.At)) {
		return
	}
	c := change{
		Revision: version, At: r.At, Kind: r.Kind, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name,
		UID: r.UID, Labels: before.Labels, Reported: true,
	}
	if version > w.known.to {
		c.Epoch = w.history.newest(r.At)
	}
	w.changes[id] = c
	w.note(id)
}

// claim is an inferred deletion: after one version, and up to another.
type claim struct {
	report report
	after  int64 // the last SYNCED at which the record had the object
	to     int64 // the version of the next SYNCED or, if exact is false, of the next later event
	exact  bool
}

// claimsOf returns the inferred deletions of a record.
func claimsOf(reports []report) (claims []claim) {
	type begun struct{ at, version int64 } // index of the report
	seen := map[string]int64{}             // by resource
	lists := map[cell]begun{}
	since := map[types.UID]int64{} // the index of the first report about each object that exists
	open := map[string][]int{}     // claims by resource
	for i, r := range reports {
		version := revision(r.ResourceVersion)
		ends := r.Kind == synced
		if version >= 0 && (ends || r.UID != "" && !r.Inferred && version > seen[r.Resource]) {
			open[r.Resource] = slices.DeleteFunc(open[r.Resource], func(n int) bool {
				matches := of(r, claims[n].report)
				if matches {
					claims[n].to, claims[n].exact = version, ends
				}
				return matches
			})
			if ends {
				lists[cell{r.Resource, r.Worker}] = begun{int64(i), version}
			}
		}
		if r.UID == "" {
			continue
		}
		if r.Kind != deleted {
			if _, found := since[r.UID]; !found {
				since[r.UID] = int64(i)
			}
		} else {
			if r.Inferred {
				one := claim{report: r, to: seen[r.Resource] + 1}
				for _, namespace := range []string{"", r.Namespace} {
					first, found := since[r.UID]
					if s := lists[cell{r.Resource, namespace}]; found && s.at > first {
						one.after = max(one.after, s.version)
					}
				}
				open[r.Resource] = append(open[r.Resource], len(claims))
				claims = append(claims, one)
			}
			delete(since, r.UID)
		}
		seen[r.Resource] = max(seen[r.Resource], version)
	}
	return claims
}

// of reports whether a report is about all objects of the namespace of another one, or about one of those.
func of(r, object report) bool { return r.Worker == "" || r.Worker == object.Namespace }

// end adds the inferred deletions of which no exact version is known.
func (w *witnesses) end(found []claim) {
	byUID := map[types.UID][]claim{}
	for _, c := range found {
		if !w.ended[c.report.UID] {
			byUID[c.report.UID] = append(byUID[c.report.UID], c)
		}
	}
	for uid, all := range byUID {
		first := slices.MinFunc(all, func(a, b claim) int { return cmp.Compare(a.to, b.to) })
		last := w.states[uid]
		if first.exact && last > first.to && !w.selected {
			continue // it was there later: nothing was deleted
		}
		version := max(first.to, last+1)
		for _, c := range all {
			version = max(version, c.after+1)
		}
		if at := w.lacked(first.report, last); at > 0 && at < version {
			version = at // a list of the other record, to which it was gone
		}
		if w.known.has(version) && last <= w.known.from {
			version = w.known.from
			if w.states[uid] > 0 && w.listed(uid) {
				continue // the history has it
			}
		}
		if !w.known.has(version) {
			w.add(first.report, version)
		}
	}
}

// listed reports whether the history has an object at its beginning.
func (w *witnesses) listed(uid types.UID) bool {
	return slices.ContainsFunc(w.history.changes, func(c change) bool { return c.UID == uid })
}

// list is what a record has after a list, or what existed when a history began.
type list struct {
	resource, namespace string // of a worker; empty for all namespaces
	version             int64
	has                 map[types.UID]bool
	first               bool // all that it has existed then: later, a deletion may be missing
}

// covers reports whether an object would be in the list.
func (l list) covers(r report) bool {
	return l.resource == r.Resource && (l.namespace == "" || l.namespace == r.Namespace)
}

// lacked returns the version of the first list after a version that lacks an object, or 0.
func (w *witnesses) lacked(r report, after int64) (at int64) {
	for _, l := range w.lists {
		if l.covers(r) && !l.has[r.UID] && after < l.version && (at == 0 || l.version < at) {
			at = l.version
		}
	}
	return at
}

func (w *witnesses) takeLists(records []*recordFile) {
	for _, r := range records {
		w.lists = append(w.lists, listsOf(r.reports)...)
	}
	w.lists = slices.DeleteFunc(w.lists, func(l list) bool { return w.known.has(l.version) })
	if w.known.from > 0 && w.known != nothing {
		has := map[types.UID]bool{}
		for _, c := range w.history.changes {
			has[c.UID] = has[c.UID] || c.Revision <= w.known.from
		}
		for _, resource := range resourcesIn(w.history.changes) {
			w.lists = append(w.lists, list{resource: resource, version: w.known.from, has: has, first: true})
		}
	}
}

// compareLists ends the objects that a list lacks, and that nobody reports later.
func (w *witnesses) compareLists() {
	for uid, r := range w.about {
		if w.ended[uid] {
			continue
		}
		existed := w.states[uid]
		for _, l := range w.lists {
			if l.first && l.covers(r) && l.has[uid] {
				existed = max(existed, l.version)
			}
		}
		if at := w.lacked(r, existed); at > 0 {
			r.Kind = deleted
			w.add(r, at)
		}
	}
}

func resourcesIn(changes []change) (resources []string) {
	for _, c := range changes {
		resources = append(resources, c.Resource)
	}
	slices.Sort(resources)
	return slices.Compact(resources)
}

// listsOf returns what a record has at its first SYNCED of each resource and worker, and at each that ends a GAP.
func listsOf(reports []report) (lists []list) {
	has := map[string]map[types.UID]bool{} // by resource
	highest := map[string]int64{}
	closed := map[cell]bool{}
	begun := map[cell]bool{}
	for _, r := range reports {
		if has[r.Resource] == nil {
			has[r.Resource] = map[types.UID]bool{}
		}
		switch key := (cell{r.Resource, r.Worker}); {
		case r.UID != "":
			if has[r.Resource][r.UID] = true; r.Kind == deleted {
				delete(has[r.Resource], r.UID)
			}
			highest[r.Resource] = max(highest[r.Resource], revision(r.ResourceVersion))
		case r.Kind == gap:
			maps.DeleteFunc(closed, func(k cell, _ bool) bool {
				return k.resource == r.Resource && (r.Worker == "" || k.namespace == r.Worker)
			})
		case r.Kind == synced && !closed[key]:
			one := list{r.Resource, r.Worker, revision(r.ResourceVersion), maps.Clone(has[r.Resource]), !begun[key]}
			if one.version < 0 {
				one.version = highest[r.Resource] // or a later one
			}
			if r.ResourceVersion != "" || one.first {
				lists = append(lists, one)
			}
			closed[key], begun[key] = true, true
		}
	}
	return lists
}
