package main

import (
	"cmp"
	"slices"
	"time"
)

// subject is a client as the judge sees it.
type subject struct {
	Name  string
	Ours  bool
	Scope scope
	// Coalesces: it may leave out states that another one followed (mux.Options.Latest).
	Coalesces bool
	// Checkpoint: a run continues after what the run before it acked, and may repeat what was not committed.
	Checkpoint bool
	// Chained: a run continues exactly where the one before it ended.
	Chained bool
	// ByObject: only the order of the changes of each object can be judged.
	ByObject bool
	// Limited: its rights change. Denied are the times in which they may be insufficient.
	Limited bool
	Denied  []fault
}

// verdict is what the judge found out about one client in one seed.
type verdict struct {
	Name            string `json:"name"`
	Ours            bool   `json:"ours"`
	Changes         int    `json:"changes"`          // in its scope, since its first SYNCED
	DeletionsMissed int    `json:"deletions_missed"` // never reported
	ChangesMissed   int    `json:"changes_missed"`   // never reported, and no GAP said so
	ChangesInGaps   int    `json:"changes_in_gaps"`  // never reported, but a GAP said so
	Live            int    `json:"live"`             // changes reported as they came from the watch
	Repeats         int    `json:"repeats"`
	OrderViolations int    `json:"order_violations"`
	Invented        int    `json:"invented"`
	FoldsWrong      int    `json:"folds_wrong"` // SYNCED, or the end, where its reports do not lead to the truth
	Folds           int    `json:"folds"`
	Gaps            int    `json:"gaps"`
	RewindsUnseen   int    `json:"rewinds_unseen"` // etcd was restored, and had caught up before the client looked
	Runs            int    `json:"runs"`
	Reports         int    `json:"reports"`
	// RecoveryMS is the median time from the end of a fault to the first live report of a change after it. The key ""
	// stands for all faults.
	RecoveryMS map[string]int64 `json:"recovery_ms"`
	SyncedMS   map[string]int64 `json:"synced_ms"` // the same until SYNCED, of those that were in a gap

	recoveries, syncs samples
	violations        []violation
}

func (v *verdict) broken() int {
	return v.DeletionsMissed + v.ChangesMissed + v.Repeats + v.OrderViolations + v.Invented + v.FoldsWrong
}

// judge compares what a client reported with the truth.
func judge(s subject, h *history, reports []report, faults []fault) *verdict {
	v := &verdict{Name: s.Name, Ours: s.Ours, recoveries: samples{}, syncs: samples{}}
	view := h.view(s.Scope)
	byResource := map[string][]report{}
	for _, r := range reports {
		v.Runs = max(v.Runs, r.Run)
		if r.Kind != committed {
			v.Reports++
		}
		byResource[r.Resource] = append(byResource[r.Resource], r)
	}
	known := view.resources()
	for resource := range byResource {
		if _, found := slices.BinarySearch(known, resource); !found {
			known = append(known, resource)
		}
	}
	for _, resource := range slices.Compact(slices.Sorted(slices.Values(known))) {
		j := &judgement{
			subject: s, verdict: v, view: view, resource: resource, reports: byResource[resource], faults: faults,
			reported: map[identity]bool{}, inferredEnds: map[string]bool{}, cells: map[cell]*cellState{},
		}
		j.run()
		j.recover()
	}
	v.RecoveryMS, v.SyncedMS = v.recoveries.medians(), v.syncs.medians()
	return v
}

// judgement is the judge's work on one resource of one client.
type judgement struct { // it has 13 fields because each rule needs some of its own
	subject
	*verdict
	view     *view
	resource string
	reports  []report
	faults   []fault

	reported     map[identity]bool
	inferredEnds map[string]bool // uids
	cells        map[cell]*cellState
	due          []interval
	seen         map[repeatKey]int // run of the last report
	live         map[identity]bool
	order        map[string]int64 // the last live version, by worker or object
	fresh        bool             // no SYNCED in this run so far
}

func (j *judgement) run() {
	for _, k := range j.view.cells(j.resource) {
		j.cell(k)
	}
	for _, r := range j.reports {
		if r.UID == "" {
			continue
		}
		if j.reported[identityOf(r)] = true; r.Kind == deleted && (r.Inferred || r.ResourceVersion == "") {
			j.inferredEnds[string(r.UID)] = true
		}
	}
	j.seen, j.live, j.order = map[repeatKey]int{}, map[identity]bool{}, map[string]int64{}
	j.checkRepeats()
	j.walk()
	j.checkEnd()
	j.checkDue()
	j.Live += len(j.live)
}

type repeatKey struct {
	identity
	kind Kind
	text string
}

// checkRepeats finds reports that come again within a run, or although they were committed before the run.
func (j *judgement) checkRepeats() {
	seen := j.seen
	upTo := map[string]int64{} // committed, by worker
	run := 0
	for i, r := range j.reports {
		if r.Run != run {
			run = r.Run
			if !j.Checkpoint && !j.Chained {
				clear(seen)
			}
		}
		switch {
		case r.Kind == committed:
			upTo[r.Namespace] = revision(r.ResourceVersion)
			continue
		case r.Kind == gap && (r.HistoryLost || r.Reason == "rewound"):
			clear(seen)
			clear(upTo)
		}
		if r.UID == "" {
			continue
		}
		key := repeatKey{identityOf(r), r.Kind, r.ResourceVersion}
		before, again := seen[key]
		seen[key] = run
		if !again {
			continue
		}
		at, found := upTo[r.Worker]
		switch {
		case before == run || j.Chained:
			j.violate(&j.Repeats, i, r.UID, "it was reported before, in run %d", before)
		case found && r.ResourceVersion != "" && identityOf(r).version <= at && r.Kind != deleted:
			j.violate(&j.Repeats, i, r.UID, "it was reported in run %d, and %d was committed before run %d",
				before, at, run)
		}
	}
}

// checkDue finds changes that were due and never reported.
func (j *judgement) checkDue() {
	type key struct {
		cell     cell
		identity identity
	}
	owed := map[key]bool{}
	for _, d := range j.due {
		for _, f := range j.view.between(d.cell, d.epoch, d.from, d.to) {
			k := key{d.cell, f.identity()}
			if owed[k] || d.excused[f.UID] {
				continue
			}
			owed[k] = true
			if j.Changes++; j.Coalesces || j.wasReported(f) {
				continue
			}
			j.ChangesMissed++
			if f.Kind == deleted {
				j.DeletionsMissed++
			}
			j.describe(d.report, f.UID, "%s of %s at %d was never reported, and no GAP says so (%d was covered next)",
				f.Kind, f.Name, f.Revision, d.to)
		}
	}
	for k := range j.cells { // the rest since the first SYNCED
		c := j.cells[k]
		if c.first < 0 {
			continue
		}
		newest := len(j.view.epochs) - 1
		for _, f := range j.view.between(k, newest, c.first, j.view.end(k, newest)) {
			if !owed[key{k, f.identity()}] {
				if j.Changes++; !j.wasReported(f) {
					j.ChangesInGaps++
				}
			}
		}
	}
}

func (j *judgement) wasReported(f *fact) bool {
	return j.reported[f.identity()] || f.Kind == deleted && j.inferredEnds[string(f.UID)]
}

// samples are durations by the name of a fault.
type samples map[string][]time.Duration

// medians returns the medians in milliseconds; that of all has the key "".
func (s samples) medians() map[string]int64 {
	out := map[string]int64{}
	var all []time.Duration
	for name, d := range s {
		out[name] = median(d).Milliseconds()
		all = append(all, d...)
	}
	if len(all) > 0 {
		out[""] = median(all).Milliseconds()
	}
	return out
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	if len(d) == 0 {
		return 0
	}
	return d[len(d)/2]
}

func (s samples) add(other samples) {
	for name, d := range other {
		s[name] = append(s[name], d...)
	}
}

// recover measures the time back after each fault.
func (j *judgement) recover() {
	type moment struct{ committed, reported time.Time }
	var moments []moment // of live reports, by the time of the report
	for _, r := range j.reports {
		if r.UID == "" || r.Inferred || r.ResourceVersion == "" {
			continue
		}
		if f, _ := j.view.find(r, len(j.view.epochs)-1); f != nil {
			moments = append(moments, moment{f.At, r.At})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return a.reported.Compare(b.reported) })
	written := j.view.latest(j.resource)
	for _, f := range j.faults {
		i, _ := slices.BinarySearchFunc(moments, f.To, func(m moment, t time.Time) int {
			return cmp.Or(m.reported.Compare(t), 1) // the first one after t
		})
		for i < len(moments) && !moments[i].committed.After(f.To) {
			i++
		}
		if i < len(moments) {
			j.recoveries[f.Name] = append(j.recoveries[f.Name], moments[i].reported.Sub(f.To))
		} else if written.After(f.To) { // never, so it took longer than until the last change
			j.recoveries[f.Name] = append(j.recoveries[f.Name], written.Sub(f.To))
		}
		if d, inGap := j.untilSynced(f.To); inGap {
			j.syncs[f.Name] = append(j.syncs[f.Name], d)
		}
	}
}

// untilSynced returns how long a gap that was reported before t lasted after it.
func (j *judgement) untilSynced(t time.Time) (time.Duration, bool) {
	inGap := false
	for _, r := range j.reports {
		switch {
		case r.Kind == gap && r.At.Before(t):
			inGap = true
		case r.Kind != synced:
		case r.At.Before(t):
			inGap = false
		default:
			return r.At.Sub(t), inGap
		}
	}
	return 0, false
}
