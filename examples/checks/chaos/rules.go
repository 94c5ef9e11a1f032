package main

import "slices"

// judgesKinds reports whether ADDED must be that of an unknown object, and every other report that of a known one.
func (j *judgement) judgesKinds(c *cellState, r report) bool {
	return j.subject.Ours && !j.subject.Checkpoint && !c.lost && !c.excused[r.UID]
}

// checkOrder checks that live versions ascend: those of each object alone, while a watch may begin with what exists.
func (j *judgement) checkOrder(i int, r report, version int64) {
	key := r.Worker
	if j.subject.ByObject || j.subject.Coalesces || j.restarts.include(r.At) {
		key = string(r.UID)
	}
	again := j.subject.ByObject && version == j.order[key] // a repeat, and no more
	if last, ok := j.order[key]; ok && version <= last && !again {
		j.violate(&j.verdict.OrderViolations, i, r.UID, "%d came after %d", version, last)
	}
	j.order[key] = max(j.order[key], version)
}

// checkReal checks that an object and a version existed.
func (j *judgement) checkReal(i int, r report, f *fact) {
	switch {
	case !j.view.uids[r.UID] && !(r.Kind == deleted && r.Inferred):
		j.violate(&j.verdict.Invented, i, r.UID, "there never was such an object")
	case r.Kind == deleted && (r.Inferred || r.ResourceVersion == ""):
		if !j.ended(i, r) {
			j.violate(&j.verdict.Invented, i, r.UID, "it was not deleted")
		}
	case f == nil:
		j.violate(&j.verdict.Invented, i, r.UID, "there never was such a version")
	}
}

// ended reports whether the object of an inferred deletion was deleted before, or never existed in some epoch. It was
// not deleted before a state that the same run reports later.
func (j *judgement) ended(i int, r report) bool {
	h, known := j.view.history, int64(-1)
	newest := h.newest(r.At)
	var later []*fact
	for _, n := range j.about[r.UID] {
		switch next := j.reports[n]; {
		case n <= i:
			known = max(known, revision(next.ResourceVersion))
		case next.Run == r.Run && next.Kind != deleted && revision(next.ResourceVersion) > known:
			if f, _ := j.view.find(next, h.newest(next.At)); f != nil {
				later = append(later, f)
			}
		}
	}
	for _, f := range j.view.facts[cell{r.Resource, r.Namespace}] {
		isLater := func(state *fact) bool { return f.at(state.Epoch) && f.Revision > state.Revision }
		gone := f.Kind == deleted && f.Epoch <= newest && h.precedes(f, r.At) && !slices.ContainsFunc(later, isLater)
		if f.UID == r.UID && (gone || f.last < newest) {
			return true
		}
	}
	return !j.view.uids[r.UID] // never in scope
}

type repeatKey struct {
	id   identity
	kind Kind
	text string
}

// checkRepeats finds reports that come again within a run, or although they were committed before the run.
func (j *judgement) checkRepeats() {
	seen := j.seen
	upTo := map[string]int64{} // committed, by worker
	run, epoch := 0, 0
	for i, r := range j.reports {
		if now := j.view.history.newest(r.At); now != epoch {
			if epoch = now; !j.subject.Ours { // the states that etcd was restored to come again, and no GAP says so
				clear(seen)
			}
		}
		if r.Run != run {
			run = r.Run
			if !j.subject.Checkpoint && !j.subject.Chained {
				clear(seen)
			}
		}
		switch {
		case r.Kind == committed:
			upTo[r.Namespace] = revision(r.ResourceVersion)
			continue
		case r.Kind == gap && (r.HistoryLost || r.reusesVersions()):
			clear(seen)
			clear(upTo)
		}
		if r.UID == "" {
			continue
		}
		key := repeatKey{identityOf(r), r.Kind, r.ResourceVersion}
		if j.subject.ByObject {
			key.kind = "" // a state that is listed again, as ADDED, is a repeat
		}
		before, again := seen[key]
		seen[key] = run
		if !again {
			continue
		}
		at, found := upTo[r.Worker]
		switch {
		case before == run || j.subject.Chained && len(j.restarts) == 0:
			j.violate(&j.verdict.Repeats, i, r.UID, "it was reported before, in run %d", before)
		case found && r.ResourceVersion != "" && identityOf(r).version <= at && r.Kind != deleted:
			j.violate(&j.verdict.Repeats, i, r.UID, "it was reported in run %d, and %d was committed before run %d",
				before, at, run)
		}
	}
}

// checkDue finds changes that were due and never reported.
func (j *judgement) checkDue() {
	for _, c := range j.cellsOf("") {
		counted := map[identity]bool{}
		for _, d := range j.due[c.cell] {
			for _, f := range j.view.between(c.cell, d.epoch, d.from, d.to) {
				if counted[f.identity()] || d.excused[f.UID] {
					continue
				}
				counted[f.identity()] = true
				if j.subject.Coalesces || j.wasReported(f) || j.restarts.hide(c, f.At) {
					continue
				}
				count := &j.verdict.ChangesMissed
				if f.Kind == deleted {
					*count++
					count = &j.verdict.DeletionsMissed
				}
				at := 0
				if *count < perKind { // it is looked for only where it is shown
					at = next(j, c, f)
				}
				j.miss(count, at, f.UID, "%s of %s %s/%s at %d was never reported, and no GAP says so",
					f.Kind, f.Resource, f.Namespace, f.Name, f.Revision)
			}
		}
		for _, f := range j.view.facts[c.cell] {
			if c.first < 0 || f.Epoch < c.firstEpoch || f.Epoch == c.firstEpoch && f.Revision <= c.first {
				continue
			}
			reported := j.wasReported(f)
			j.verdict.details.reported[f.identity()] = reported
			if j.verdict.Changes++; !counted[f.identity()] && !reported {
				j.verdict.ChangesInGaps++
			}
		}
	}
}

// next returns the index of the first report that covers a change: a SYNCED, or a live event, of no lower version.
func next(j *judgement, c *cellState, f *fact) int {
	for i, r := range j.reports {
		ofCell := r.Worker == "" || r.Worker == c.cell.namespace
		if ofCell && (r.Kind == synced || j.live[identityOf(r)]) && revision(r.ResourceVersion) >= f.Revision &&
			j.view.history.newest(r.At) >= f.Epoch {
			return i
		}
	}
	return len(j.reports) - 1
}

func (j *judgement) wasReported(f *fact) bool {
	if f.Kind == deleted {
		at, found := j.inferredEnds[f.UID]
		return j.reported[f.identity()] || found && j.view.history.precedes(f, at)
	}
	return j.reported[f.identity()] || f.Revision < j.retold[f.UID]
}
