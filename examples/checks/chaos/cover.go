package main

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// cellState is how far a client has covered a cell.
type cellState struct {
	cell       cell
	now        coverage
	lost       bool      // the open GAP permits that everything is reported again
	synced     int64     // the version of the last SYNCED
	relisted   time.Time // when the last list was reported as a whole
	first      int64     // where the coverage began, or -1, and in which epoch
	firstEpoch int
	fold       map[types.UID]report
	last       map[types.UID]int64 // the highest version of any report about the object
	excused    map[types.UID]bool  // changed around a rewind that could not be seen; until the next list
}

// coverage is what a later run with a checkpoint goes on from.
type coverage struct {
	epoch int
	to    int64 // everything up to here is covered, or a GAP has said that it is not
	begun bool  // there was a SYNCED
	open  bool  // there was a GAP, and no SYNCED since
	blind bool  // rights were insufficient, and there was no SYNCED since: as if there was a GAP
}

// interval is a part of a cell's history that a client covered without a GAP: all changes in it are due.
type interval struct {
	epoch    int
	from, to int64 // changes after from, up to to
	excused  map[types.UID]bool
}

func (j *judgement) cell(k cell) *cellState {
	c := j.cells[k]
	if c == nil {
		c = &cellState{
			cell: k, first: -1, fold: map[types.UID]report{}, last: map[types.UID]int64{},
			excused: map[types.UID]bool{},
		}
		j.cells[k] = c
	}
	return c
}

// cellsOf returns the cells that a worker watches: those of its namespace, or all.
func (j *judgement) cellsOf(worker string) (cells []*cellState) {
	for _, c := range j.cells {
		if worker == "" || worker == c.cell.namespace {
			cells = append(cells, c)
		}
	}
	slices.SortFunc(cells, func(a, b *cellState) int { return strings.Compare(a.cell.namespace, b.cell.namespace) })
	return cells
}

// walk follows the reports, and notes what is due. It checks the fold at each SYNCED, the order, and that every object
// and version exists.
func (j *judgement) walk() {
	run, acked, denied := 0, true, 0
	saved := map[cell]coverage{} // at the first report of this run that was not acked
	save := func() {
		for k, c := range j.cells {
			saved[k] = c.now
		}
	}
	for i, r := range j.reports {
		if r.Kind == committed {
			continue
		}
		if denied < len(j.subject.Denied) && !r.At.Before(j.subject.Denied[denied].From) {
			denied++
			for _, c := range j.cells {
				c.now.blind = c.now.blind || c.now.begun
			}
		}
		if j.fresh = j.fresh || r.Run != run; r.Run != run {
			if j.subject.Checkpoint && !acked {
				for k, at := range saved {
					j.cells[k].now = at
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
			j.verdict.Gaps[r.Reason]++
			for _, c := range j.cellsOf(r.Namespace) {
				c.now.open = true
				c.lost = c.lost || r.HistoryLost || r.reusesVersions()
				if r.mayLieBack() {
					j.due[c.cell] = upTo(j.due[c.cell], c, r)
				}
			}
			clear(j.order)
		case synced:
			if top, known := j.view.history.topAt(r.At); known && revision(r.ResourceVersion) > top {
				j.violate(&j.verdict.Invented, i, "", "etcd had no such revision yet: it was at %d", top)
				r.ResourceVersion = ""
			}
			for _, c := range j.cellsOf(r.Namespace) {
				j.sync(c, i, r)
			}
			delete(j.order, r.Namespace)
			j.fresh = false
		case contents:
			followContents(j, i, r)
		default:
			j.object(i, r)
		}
	}
}

// denied reports whether the client was not allowed to see everything at the time of a report.
func (s subject) denied(r report) bool {
	return slices.ContainsFunc(s.Denied, func(f fault) bool { return !r.At.Before(f.From) && !r.At.After(f.To) })
}

// object follows the report of an object.
func (j *judgement) object(i int, r report) {
	c := j.cell(cell{r.Resource, r.Namespace})
	live := c.now.begun && !c.now.open && !j.fresh && !r.Inferred && r.ResourceVersion != ""
	version := revision(r.ResourceVersion)
	newest := j.view.history.newest(r.At)
	f, at := j.view.find(r, newest)
	j.checkReal(i, r, f)
	if c.last[r.UID] = max(c.last[r.UID], version); r.Kind == deleted && r.Inferred {
		c.last[r.UID] = math.MaxInt64 // at some later version
	}
	_, isKnown := c.fold[r.UID]
	if j.judgesKinds(c, r) && isKnown == (r.Kind == added) {
		j.violate(&j.verdict.OrderViolations, i, r.UID, "the object was known: %v", isKnown)
	}
	if r.Kind == deleted {
		delete(c.fold, r.UID)
	} else {
		c.fold[r.UID] = r
	}
	if !live || f == nil {
		return
	}
	if at > c.firstEpoch || version > c.first {
		j.live[identityOf(r)] = true
	}
	if at > c.now.epoch && !j.subject.Ours {
		clear(j.order)
	}
	j.checkOrder(i, r, version)
	if at < c.now.epoch {
		c.excused[r.UID] = true // a last report from before the restore
		return
	}
	for _, c := range j.cellsOf(r.Worker) {
		switch {
		case !c.now.begun || c.now.open:
		case !c.now.blind:
			j.cover(c, at, version)
		case at > c.now.epoch:
			j.enter(c, at, version)
		}
	}
}

// cover notes that a client has covered a cell up to a version in an epoch.
func (j *judgement) cover(c *cellState, epoch int, to int64) {
	if epoch > c.now.epoch {
		j.enter(c, epoch, to)
	}
	if to <= c.now.to {
		return
	}
	due := j.due[c.cell]
	if n := len(due) - 1; n >= 0 && due[n].epoch == c.now.epoch && due[n].to == c.now.to {
		due[n].to = to
	} else {
		j.due[c.cell] = append(due, interval{c.now.epoch, c.now.to, to, c.excused})
	}
	c.now.to = to
}

// enter handles a restore of etcd that a client went through without a GAP. If etcd's revision was past the client's
// again when the client looked, the client could not notice, and need not report what happened before and after the
// restore, up to there. Otherwise everything after the restore is due.
func (j *judgement) enter(c *cellState, epoch int, to int64) {
	cut := j.view.history.epochs[epoch].After
	for e := c.now.epoch + 1; e < epoch; e++ {
		cut = min(cut, j.view.history.epochs[e].After)
	}
	from := c.now.epoch
	c.now.epoch = epoch
	if to <= c.now.to {
		c.now.to = min(c.now.to, cut)
		return
	}
	c.excused = maps.Clone(c.excused)
	different := 0
	for e := from; e <= epoch; e++ {
		for _, f := range j.view.between(c.cell, e, cut, j.view.end(c.cell, e)) {
			if e < epoch || f.Revision <= c.now.to || c.now.blind && f.Revision <= to {
				c.excused[f.UID] = true
				different++
			}
		}
	}
	if different > 0 {
		j.verdict.RewindsUnseen++
	}
}

// sync follows a SYNCED.
func (j *judgement) sync(c *cellState, i int, r report) {
	relisted := c.now.open || !c.now.begun || c.now.blind
	if c.now.blind && j.subject.denied(r) {
		return
	}
	to, known := revision(r.ResourceVersion), r.ResourceVersion != ""
	if !known && !relisted {
		return
	}
	if relisted {
		j.verdict.Folds++
		var differs string
		if c.now.epoch, to, differs = j.match(c, i, r); differs != "" {
			j.violate(&j.verdict.FoldsWrong, i, "", "%s in namespace %q: %s", j.resource, c.cell.namespace, differs)
		}
		if c.now.open {
			c.excused = map[types.UID]bool{}
		}
		c.now.begun, c.now.open, c.now.blind, c.lost = true, false, false, false
		c.relisted = r.At
		if c.now.to, c.synced = to, to; c.first < 0 {
			c.first, c.firstEpoch = to, c.now.epoch
		}
		j.due[c.cell] = append(j.due[c.cell], interval{c.now.epoch, to, to, c.excused})
		return
	}
	if to > c.now.to {
		j.cover(c, c.now.epoch, to)
	}
	c.now.to, c.synced = to, to
	j.verdict.Folds++
	if differs := j.differs(c, c.now.epoch, to); differs != "" {
		j.violate(&j.verdict.FoldsWrong, i, "", "%s in namespace %q at %d: %s",
			j.resource, c.cell.namespace, to, differs)
	}
}
