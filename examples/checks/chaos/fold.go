package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// match finds the epoch, and if it is unknown the version, of a SYNCED after a list.
func (j *judgement) match(c *cellState, i int, r report) (epoch int, to int64, differs string) {
	var best int64
	for e := j.view.history.newest(r.At); e >= c.now.epoch; e-- {
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
		again := c.fold[next.UID].ResourceVersion == next.ResourceVersion // it lists what it knows
		if next.UID != "" && next.Namespace == c.cell.namespace && !next.Inferred && !again {
			limit = revision(next.ResourceVersion)
		}
	}
	versions, seen := []int64{j.view.history.epochs[epoch].After}, r.At.Add(j.view.history.slack)
	for _, f := range j.view.timeline(c.cell, epoch) {
		if (limit < 0 || f.Revision < limit) && (epoch < c.now.epoch || f.Revision > c.now.to) && !f.At.After(seen) {
			versions = append(versions, f.Revision)
		}
	}
	if epoch == c.now.epoch {
		versions = append(versions, c.now.to)
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
		behind := j.subject.Chained && len(j.restarts) > 0 // the run resumed before what the last one has reported
		ahead := (j.subject.Checkpoint || j.subject.Coalesces || behind) && c.last[uid] > to
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

// checkEnd checks that the client knows everything at the end.
func (j *judgement) checkEnd() {
	newest := len(j.view.history.epochs) - 1
	for _, c := range j.cellsOf("") {
		end := j.view.end(c.cell, newest)
		switch {
		case !c.now.begun || c.now.open:
		case c.now.blind && newest > c.now.epoch:
			j.enter(c, newest, max(end, c.now.to+1))
		case !c.now.blind:
			j.cover(c, newest, end, len(j.reports)-1)
		}
		if j.restarts.hide(c, time.Now()) {
			continue
		}
		want := j.view.state(c.cell, newest, end)
		for uid, r := range c.fold {
			if want[uid] == nil && !c.excused[uid] && j.view.uids[uid] {
				if f := j.ending(c, uid); f != nil && j.isDue(c.cell, f) {
					continue // checkDue counts it
				}
				j.violate(&j.verdict.DeletionsMissed, len(j.reports)-1, uid,
					"%s is gone, and was never reported as deleted", r.Name)
			}
		}
		j.verdict.Folds++
		if differs := j.differs(c, newest, end); differs != "" {
			j.violate(&j.verdict.FoldsWrong, len(j.reports)-1, "", "%s in namespace %q at the end: %s",
				j.resource, c.cell.namespace, differs)
		}
	}
}

// ending returns the last deletion of an object.
func (j *judgement) ending(c *cellState, uid types.UID) (last *fact) {
	for _, f := range j.view.timeline(c.cell, len(j.view.history.epochs)-1) {
		if f.UID == uid && f.Kind == deleted {
			last = f
		}
	}
	return last
}

func (j *judgement) isDue(k cell, f *fact) bool {
	return !j.subject.Coalesces && !j.wasReported(f) && slices.ContainsFunc(j.due, func(d interval) bool {
		return d.cell == k && f.at(d.epoch) && d.from < f.Revision && f.Revision <= d.to
	})
}
