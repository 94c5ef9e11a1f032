package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// cellState is how far a client has covered a cell.
type cellState struct {
	cell
	coverage
	lost    bool  // the GAP that is open permits that everything is reported anew
	first   int64 // where the coverage began, or -1
	fold    map[types.UID]report
	last    map[types.UID]int64 // the highest version of any report about the object
	excused map[types.UID]bool  // changed around a rewind that could not be seen; until the next list
}

// coverage is what a later run with a checkpoint goes on from.
type coverage struct {
	epoch int
	to    int64 // everything up to here is covered, or a GAP has said that it is not
	begun bool  // there was a SYNCED
	open  bool  // there was a GAP, and no SYNCED since
}

// interval is a part of a cell's history that a client covered without a GAP: all changes in it are due.
type interval struct {
	cell     cell
	epoch    int
	from, to int64 // changes after from, up to to
	report   int   // index of the report that covered the end
	excused  map[types.UID]bool
}

func (j *judgement) cell(k cell) *cellState {
	c := j.cells[k]
	if c == nil {
		c = &cellState{
			cell: k, first: -1, fold: map[types.UID]report{}, last: map[types.UID]int64{}, excused: map[types.UID]bool{},
		}
		j.cells[k] = c
	}
	return c
}

// cellsOf returns the cells that a worker watches: those of its namespace, or all.
func (j *judgement) cellsOf(worker string) (cells []*cellState) {
	for _, c := range j.cells {
		if worker == "" || worker == c.namespace {
			cells = append(cells, c)
		}
	}
	slices.SortFunc(cells, func(a, b *cellState) int { return strings.Compare(a.namespace, b.namespace) })
	return cells
}

// walk follows the reports, and notes what is due. It checks the fold at each SYNCED, the order, and that every object
// and version exists.
func (j *judgement) walk() {
	run, acked, denied := 0, true, 0
	saved := map[cell]coverage{} // at the first report of this run that was not acked
	save := func() {
		for k, c := range j.cells {
			saved[k] = c.coverage
		}
	}
	for i, r := range j.reports {
		if r.Kind == committed {
			continue
		}
		if denied < len(j.Denied) && !r.At.Before(j.Denied[denied].From) {
			denied++
			for _, c := range j.cells {
				c.open = c.open || c.begun
			}
		}
		if j.fresh = j.fresh || r.Run != run; r.Run != run {
			if j.Checkpoint && !acked {
				for k, at := range saved {
					j.cells[k].coverage = at
				}
			}
			run, acked = r.Run, true
			clear(j.order)
		}
		if acked && !r.Acked {
			acked = false
			save()
		}
		switch r.Kind {
		case gap:
			j.Gaps++
			for _, c := range j.cellsOf(r.Namespace) {
				c.open = true
				c.lost = c.lost || r.HistoryLost || r.Reason == "rewound"
			}
			clear(j.order)
		case synced:
			for _, c := range j.cellsOf(r.Namespace) {
				j.sync(c, i, r)
			}
			delete(j.order, r.Namespace)
			j.fresh = false
		default:
			j.object(i, r)
		}
	}
}

// judgesKinds reports whether ADDED must be that of an unknown object, and every other report that of a known one.
func (j *judgement) judgesKinds(c *cellState, r report) bool {
	return j.subject.Ours && !j.Checkpoint && !c.lost && !c.excused[r.UID]
}

// denied reports whether the client was not allowed to see everything at the time of a report.
func (j *judgement) denied(r report) bool {
	return slices.ContainsFunc(j.Denied, func(f fault) bool { return !r.At.Before(f.From) && !r.At.After(f.To) })
}

// object follows the report of an object.
func (j *judgement) object(i int, r report) {
	c := j.cell(cell{r.Resource, r.Namespace})
	live := c.begun && !c.open && !j.fresh && !r.Inferred && r.ResourceVersion != ""
	version := revision(r.ResourceVersion)
	newest := j.view.newest(r.At)
	f, at := j.view.find(r, newest)
	j.checkReal(i, r, f)
	if c.last[r.UID] = max(c.last[r.UID], version); r.Kind == deleted && r.Inferred {
		c.last[r.UID] = math.MaxInt64 // at some later version
	}
	_, isKnown := c.fold[r.UID]
	if j.judgesKinds(c, r) && isKnown == (r.Kind == added) {
		j.violate(&j.OrderViolations, i, r.UID, "the object was known: %v", isKnown)
	}
	if r.Kind == deleted {
		delete(c.fold, r.UID)
	} else {
		c.fold[r.UID] = r
	}
	if !live || f == nil {
		return
	}
	j.live[identityOf(r)] = true
	if at > c.epoch && !j.subject.Ours {
		clear(j.order)
	}
	j.checkOrder(i, r, version)
	if at < c.epoch {
		c.excused[r.UID] = true // a last report from before the restore
		return
	}
	for _, c := range j.cellsOf(r.Worker) {
		if c.begun && !c.open {
			j.cover(c, at, version, i)
		}
	}
}

// cover notes that a client has covered a cell up to a version in an epoch.
func (j *judgement) cover(c *cellState, epoch int, to int64, i int) {
	if epoch > c.epoch {
		j.enter(c, epoch, to)
	}
	if to <= c.to {
		return
	}
	if n := len(j.due) - 1; n >= 0 && j.due[n].cell == c.cell && j.due[n].epoch == c.epoch && j.due[n].to == c.to {
		j.due[n].to = to
	} else {
		j.due = append(j.due, interval{c.cell, c.epoch, c.to, to, i, c.excused})
	}
	c.to = to
}

// enter handles a restore of etcd that a client went through without a GAP. If etcd's revision was past the client's
// again when the client looked, the client could not notice: what happened before and after the restore, up to there, is
// nobody's to report. Otherwise everything after the restore is due.
func (j *judgement) enter(c *cellState, epoch int, to int64) {
	cut := j.view.epochs[epoch].After
	for e := c.epoch + 1; e < epoch; e++ {
		cut = min(cut, j.view.epochs[e].After)
	}
	from := c.epoch
	c.epoch = epoch
	if to <= c.to {
		c.to = min(c.to, cut)
		return
	}
	c.excused = maps.Clone(c.excused)
	different := 0
	for e := from; e <= epoch; e++ {
		for _, f := range j.view.between(c.cell, e, cut, j.view.end(c.cell, e)) {
			if e < epoch || f.Revision <= c.to {
				c.excused[f.UID] = true
				different++
			}
		}
	}
	if different > 0 {
		j.RewindsUnseen++
	}
}

// sync follows a SYNCED.
func (j *judgement) sync(c *cellState, i int, r report) {
	relisted := c.open || !c.begun
	if c.open && j.denied(r) {
		return
	}
	to, known := revision(r.ResourceVersion), r.ResourceVersion != ""
	if !known && !relisted {
		return
	}
	if relisted {
		j.Folds++
		var differs string
		if c.epoch, to, differs = j.match(c, i, r); differs != "" && j.subject.Ours {
			j.violate(&j.FoldsWrong, i, "", "%s in namespace %q: %s", j.resource, c.namespace, differs)
		}
		c.begun, c.open, c.lost = true, false, false
		c.excused = map[types.UID]bool{}
		if c.to = to; c.first < 0 {
			c.first = to
		}
		return
	}
	if to > c.to {
		j.cover(c, c.epoch, to, i)
	}
	c.to = to
	j.Folds++
	if differs := j.differs(c, c.epoch, to); differs != "" {
		j.violate(&j.FoldsWrong, i, "", "%s in namespace %q at %d: %s", j.resource, c.namespace, to, differs)
	}
}

// match finds the epoch, and if it is unknown the version, of a SYNCED after a list.
func (j *judgement) match(c *cellState, i int, r report) (epoch int, to int64, differs string) {
	var best int64
	for e := j.view.newest(r.At); e >= c.epoch; e-- {
		for _, to := range j.candidates(c, e, i, r) {
			d := j.differs(c, e, to)
			if d == "" {
				return e, to, ""
			}
			if differs == "" {
				epoch, best, differs = e, to, fmt.Sprintf("at %d: %s", to, d)
			}
		}
	}
	return epoch, best, differs
}

// candidates returns the versions that a SYNCED may have.
func (j *judgement) candidates(c *cellState, epoch int, i int, r report) []int64 {
	if r.ResourceVersion != "" {
		return []int64{revision(r.ResourceVersion)}
	}
	limit := int64(-1)
	for _, next := range j.reports[i+1:] {
		if next.Kind == gap || limit >= 0 {
			break
		}
		if next.UID != "" && next.Namespace == c.namespace && !next.Inferred {
			limit = revision(next.ResourceVersion)
		}
	}
	versions := []int64{j.view.epochs[epoch].After}
	for _, f := range j.view.timeline(c.cell, epoch) {
		if (limit < 0 || f.Revision < limit) && (epoch < c.epoch || f.Revision > c.to) && !f.At.After(r.At) {
			versions = append(versions, f.Revision)
		}
	}
	if epoch == c.epoch {
		versions = append(versions, c.to)
	}
	slices.Sort(versions)
	slices.Reverse(versions)
	return versions
}

// differs says how the fold of all reports differs from the truth, or returns "".
func (j *judgement) differs(c *cellState, epoch int, to int64) string {
	want := j.view.state(c.cell, epoch, to)
	var lines []string
	note := func(uid types.UID, format string, args ...any) {
		ahead := (j.Checkpoint || j.Coalesces) && c.last[uid] > to
		if !c.excused[uid] && !ahead {
			lines = append(lines, fmt.Sprintf(format, args...))
		}
	}
	for uid, f := range want {
		have, ok := c.fold[uid]
		switch {
		case !ok:
			note(uid, "%s (%s, at %d) exists, and is not reported", f.Name, uid, f.Revision)
		case revision(have.ResourceVersion) != f.Revision:
			note(uid, "%s (%s) is at %d, and reported at %s", f.Name, uid, f.Revision, have.ResourceVersion)
		}
	}
	for uid, have := range c.fold {
		if want[uid] == nil {
			note(uid, "%s (%s, reported at %s) does not exist", have.Name, uid, have.ResourceVersion)
		}
	}
	slices.Sort(lines)
	if len(lines) > 5 {
		lines = append(lines[:5], fmt.Sprintf("and %d more", len(lines)-5))
	}
	return strings.Join(lines, "; ")
}

// checkOrder checks that live versions ascend.
func (j *judgement) checkOrder(i int, r report, version int64) {
	key := r.Worker
	if j.ByObject || j.Coalesces {
		key = string(r.UID)
	}
	if last, ok := j.order[key]; ok && version <= last {
		j.violate(&j.OrderViolations, i, r.UID, "%d came after %d", version, last)
	}
	j.order[key] = max(j.order[key], version)
}

// checkReal checks that an object and a version existed.
func (j *judgement) checkReal(i int, r report, f *fact) {
	switch {
	case !j.view.uids[r.UID] && !(r.Kind == deleted && r.Inferred):
		j.violate(&j.Invented, i, r.UID, "there never was such an object")
	case r.Kind == deleted && (r.Inferred || r.ResourceVersion == ""):
		if !j.ended(r) {
			j.violate(&j.Invented, i, r.UID, "it was not deleted")
		}
	case f == nil:
		j.violate(&j.Invented, i, r.UID, "there never was such a version")
	}
}

// ended reports whether the object of an inferred deletion was deleted before, or never existed in some epoch.
func (j *judgement) ended(r report) bool {
	newest := j.view.newest(r.At)
	for _, f := range j.view.facts[cell{r.Resource, r.Namespace}] {
		if f.UID == r.UID && (f.Kind == deleted && f.Epoch <= newest || f.last < newest) {
			return true
		}
	}
	return !j.view.uids[r.UID] // never in scope
}

// checkEnd checks that the client knows everything at the end.
func (j *judgement) checkEnd() {
	newest := len(j.view.epochs) - 1
	for _, c := range j.cellsOf("") {
		end := j.view.end(c.cell, newest)
		if c.begun && !c.open {
			j.cover(c, newest, end, len(j.reports)-1)
		}
		want := j.view.state(c.cell, newest, end)
		for uid, r := range c.fold {
			if want[uid] == nil && !c.excused[uid] {
				if f := j.ending(c, uid); f != nil && j.isDue(c.cell, f) {
					continue // checkDue counts it
				}
				j.violate(&j.DeletionsMissed, len(j.reports)-1, uid, "%s is gone, and was never reported as deleted", r.Name)
			}
		}
		j.Folds++
		if differs := j.differs(c, newest, end); differs != "" {
			j.violate(&j.FoldsWrong, len(j.reports)-1, "", "%s in namespace %q at the end: %s",
				j.resource, c.namespace, differs)
		}
	}
}

// ending returns the last deletion of an object.
func (j *judgement) ending(c *cellState, uid types.UID) (last *fact) {
	for _, f := range j.view.timeline(c.cell, len(j.view.epochs)-1) {
		if f.UID == uid && f.Kind == deleted {
			last = f
		}
	}
	return last
}

func (j *judgement) isDue(k cell, f *fact) bool {
	return !j.Coalesces && !j.wasReported(f) && slices.ContainsFunc(j.due, func(d interval) bool {
		return d.cell == k && f.at(d.epoch) && d.from < f.Revision && f.Revision <= d.to
	})
}
