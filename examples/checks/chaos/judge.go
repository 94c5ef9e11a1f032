package main

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// subject is a client as the judge sees it.
type subject struct {
	Name string
	// Ours: it keeps the promises, or it is no good.
	Ours  bool
	Scope scope
	// Coalesces: it may leave out states that another one followed (mux.Latest).
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
	ChangesInGaps   int    `json:"changes_in_gaps"`  // never reported, and not due: a GAP, or a restore
	Live            int    `json:"live"`             // changes reported as they came from the watch
	Repeats         int    `json:"repeats"`
	OrderViolations int    `json:"order_violations"`
	Invented        int    `json:"invented"`
	FoldsWrong      int    `json:"folds_wrong"` // SYNCED, or the end, where its reports do not lead to the truth
	Folds           int    `json:"folds"`
	RewindsUnseen   int    `json:"rewinds_unseen"` // etcd was restored, and had caught up before the client looked
	Wrote           wrote  `json:"wrote"`
	// SeenByOthers counts the changes that this client did not report, due or not, and another one did.
	SeenByOthers int `json:"seen_by_others"`
	// Program is about a client in processes of its own.
	Program programCounts `json:"program,omitzero"`
	// Contents is about what a cache contains.
	Contents contentsCounts `json:"contents"`
	// Gaps counts the GAPs by reason.
	Gaps  map[string]int `json:"gaps"`
	Times times          `json:"times"`

	details details
}

// times are medians in milliseconds by the name of a fault, -1 for never. The key "" stands for all faults.
type times struct {
	Recovery map[string]int64 `json:"recovery_ms"` // from the fault's end to the first live report of a change after it
	Synced   map[string]int64 `json:"synced_ms"`   // the same until SYNCED, of those that were in a gap
}

// wrote is how much a client reported.
type wrote struct {
	Runs   int `json:"runs"`
	Events int `json:"events"`
}

// details are what Times has the medians of, and the first violations.
type details struct {
	recoveries, syncs samples
	violations        []violation
	reported          map[identity]bool // whether a change was
}

func (v *verdict) broken() int {
	return v.DeletionsMissed + v.ChangesMissed + v.Repeats + v.OrderViolations + v.Invented + v.FoldsWrong
}

// judge compares what a client reported with the truth.
func judge(s subject, h *history, reports []report, faults []fault) *verdict {
	v := &verdict{Name: s.Name, Ours: s.Ours, Gaps: map[string]int{},
		details: details{recoveries: samples{}, syncs: samples{}, reported: map[identity]bool{}}}
	view := h.view(s.Scope)
	byResource := map[string][]report{}
	for _, r := range reports {
		v.Wrote.Runs = max(v.Wrote.Runs, r.Run)
		if r.Kind != committed && r.Kind != contents {
			v.Wrote.Events++
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
			reported: map[identity]bool{}, inferredEnds: map[types.UID]time.Time{}, retold: map[types.UID]int64{},
			cells: map[cell]*cellState{}, held: map[holder]held{}, due: map[cell][]interval{},
			about: map[types.UID][]int{},
		}
		if s.Ours {
			j.restarts = restartsOf(faults)
		}
		j.run()
		j.recover()
	}
	v.Times = v.details.times()
	return v
}

// compare counts, for each client of one seed, what it did not report and another one did.
func compare(verdicts []*verdict) {
	by := map[identity]int{} // clients that reported a change
	for _, v := range verdicts {
		for id, reported := range v.details.reported {
			if reported {
				by[id]++
			}
		}
	}
	for _, v := range verdicts {
		for id, reported := range v.details.reported {
			if !reported && by[id] > 0 {
				v.SeenByOthers++
			}
		}
	}
}

// judgement is the judge's work on one resource of one client.
type judgement struct {
	subject  subject
	verdict  *verdict
	view     *view
	resource string
	reports  []report
	faults   []fault

	reported     map[identity]bool
	inferredEnds map[types.UID]time.Time // of the last report
	about        map[types.UID][]int     // indexes of the reports about each object
	// retold are the states that a watch may have sent in the place of earlier ones, because it began with what exists.
	// A run that ends before its GAP says nothing of those.
	retold   map[types.UID]int64
	restarts restarts // of our clients
	cells    map[cell]*cellState
	due      map[cell][]interval
	seen     map[repeatKey]int // run of the last report
	live     map[identity]bool
	order    map[string]int64 // the last live version, by worker or object
	fresh    bool             // no SYNCED in this run so far
	held     map[holder]held
}

func (j *judgement) run() {
	for _, k := range j.view.cells(j.resource) {
		j.cell(k)
	}
	for i, r := range j.reports {
		if r.UID == "" {
			continue
		}
		j.about[r.UID] = append(j.about[r.UID], i)
		if j.restarts.include(r.At) && r.Kind != deleted {
			j.retold[r.UID] = max(j.retold[r.UID], revision(r.ResourceVersion))
		}
		if j.reported[identityOf(r)] = true; r.Kind == deleted && (r.Inferred || r.ResourceVersion == "") {
			j.inferredEnds[r.UID] = r.At
		}
	}
	j.seen, j.live, j.order = map[repeatKey]int{}, map[identity]bool{}, map[string]int64{}
	j.checkRepeats()
	j.walk()
	j.checkEnd()
	j.checkDue()
	j.verdict.Live += len(j.live)
}
