package main

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// cutOff says up to where a record could be judged.
type cutOff struct {
	to    int64 // the highest version
	later int   // changes after what was due, which the record does not have
	at    time.Time
}

// due returns the part of a history that a record is judged by, and its reports up to there. A record with an END must
// have all of the history. In others, a change is due
//
//  1. if it is in the record, or from before the last restore of etcd
//  2. or if it was committed more than late before the time of the last line
//  3. or if the record has covered its version: with a SYNCED or, if its versions ascend, a later one.
//
// After a GAP that no SYNCED follows, nothing is due, and nor is a change whose report a later one may have replaced. A
// restore of etcd that came less than late before the last line ends the record.
func (r *recordFile) due(h *history, late time.Duration) (*history, []report, cutOff) {
	out := cutOff{at: r.ended}
	reports, epochs := r.reports, h.epochs
	deadline := r.ended.Add(-late)
	if r.timed && !r.complete {
		for e := 1; e < len(epochs); e++ {
			if epochs[e].At.After(deadline) {
				reports, epochs = before(reports, epochs[e].At), epochs[:e]
			}
		}
		reports = withoutLate(reports, deadline)
	}
	d := dues{
		record: r, late: late, lines: reports, newest: epochs[len(epochs)-1], ends: map[cell]*cellEnd{},
		epoch: len(epochs) - 1, reported: map[identity]bool{}, gone: map[types.UID]int64{},
	}
	d.note()
	kept := &history{epochs: epochs, slack: h.slack}
	replaced := map[types.UID]bool{} // objects of which no later change was reported, and one is not due
	for _, c := range slices.Backward(h.changes) {
		if d.reports(c) {
			replaced[c.UID] = false
		}
		switch {
		case r.complete, c.Epoch < d.epoch, c.Epoch == d.epoch && d.has(c) && !replaced[c.UID]:
			kept.changes = append(kept.changes, c)
			if c.Epoch == d.epoch && r.subject.Scope.has(c) {
				out.to = max(out.to, c.Revision)
			}
		case r.subject.Scope.has(c):
			replaced[c.UID] = r.subject.Coalesces
			out.later++
		}
	}
	slices.Reverse(kept.changes)
	return kept, reports, out
}

func before(reports []report, at time.Time) []report {
	for i, r := range reports {
		if !r.At.Before(at) {
			return reports[:i]
		}
	}
	return reports
}

// withoutLate leaves out each SYNCED after a time whose version is unknown: so is what it covers.
func withoutLate(reports []report, deadline time.Time) (kept []report) {
	for _, r := range reports {
		if r.Kind != synced || r.ResourceVersion != "" || !r.At.After(deadline) {
			kept = append(kept, r)
		}
	}
	return kept
}

// dues decides which changes of the last epoch are due.
type dues struct {
	record   *recordFile
	late     time.Duration
	lines    []report
	newest   epoch
	epoch    int
	ends     map[cell]*cellEnd
	reported map[identity]bool
	gone     map[types.UID]int64 // before which version an inferred deletion was
}

// cellEnd is how a record ends about a cell.
type cellEnd struct {
	begun, open bool
	opened      time.Time // of the GAP
	to          int64     // the version that was covered
}

func (d *dues) note() {
	for _, r := range d.lines {
		if r.UID == "" {
			continue
		}
		d.reported[identityOf(r)] = true
		if r.Kind == deleted && (r.Inferred || r.ResourceVersion == "") {
			d.gone[r.UID] = math.MaxInt64
		} else if d.gone[r.UID] == math.MaxInt64 { // it has entered the selector again
			d.gone[r.UID] = revision(r.ResourceVersion)
		}
	}
}

// reports reports whether a change is in the record.
func (d *dues) reports(c change) bool {
	gone := c.Kind == deleted
	return d.reported[identity{c.UID, c.Revision, gone}] || gone && c.Revision < d.gone[c.UID] ||
		d.record.subject.Scope.Selects != nil && d.reported[identity{c.UID, c.Revision, true}] // it left the selector
}

func (d *dues) has(c change) bool {
	if d.reports(c) {
		return true
	}
	k := cell{c.Resource, c.Namespace}
	e := d.ends[k]
	if e == nil {
		e = d.end(k)
		d.ends[k] = e
	}
	if !e.begun {
		return false
	}
	if c.Revision <= e.to {
		return true
	}
	until := d.record.ended
	if e.open {
		until = e.opened
	}
	return d.record.timed && !c.At.IsZero() && !c.At.After(until.Add(-d.late))
}

// end follows what the record says about a cell.
func (d *dues) end(k cell) *cellEnd {
	e := &cellEnd{}
	s := d.record.subject
	ascends := !s.Coalesces && (s.Ours && !s.ByObject || !d.record.timed)
	for _, r := range d.lines {
		if r.Resource != k.resource || r.Worker != "" && r.Worker != k.namespace {
			continue
		}
		// After a restore, versions of before it say nothing.
		current := d.epoch == 0 || !r.At.Before(d.newest.At.Add(d.late))
		switch {
		case r.Kind == gap:
			if !e.open {
				e.opened = r.At
			}
			e.open = true
		case r.Kind == synced:
			if e.begun, e.open = true, false; current {
				e.to = max(e.to, revision(r.ResourceVersion))
			}
		case r.UID != "" && ascends && current && e.begun && !e.open && !r.Inferred:
			e.to = max(e.to, revision(r.ResourceVersion))
		}
	}
	return e
}
