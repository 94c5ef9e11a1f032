package main

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
		if !j.ended(r) {
			j.violate(&j.verdict.Invented, i, r.UID, "it was not deleted")
		}
	case f == nil:
		j.violate(&j.verdict.Invented, i, r.UID, "there never was such a version")
	}
}

// ended reports whether the object of an inferred deletion was deleted before, or never existed in some epoch.
func (j *judgement) ended(r report) bool {
	h := j.view.history
	newest := h.newest(r.At)
	for _, f := range j.view.facts[cell{r.Resource, r.Namespace}] {
		if f.UID == r.UID && (f.Kind == deleted && f.Epoch <= newest && h.precedes(f, r.At) || f.last < newest) {
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
	type key struct {
		cell     cell
		identity identity
	}
	counted := map[key]bool{}
	for _, d := range j.due {
		for _, f := range j.view.between(d.cell, d.epoch, d.from, d.to) {
			k := key{d.cell, f.identity()}
			if counted[k] || d.excused[f.UID] {
				continue
			}
			counted[k] = true
			if j.subject.Coalesces || j.wasReported(f) || j.restarts.hide(j.cell(d.cell), f.At) {
				continue
			}
			count := &j.verdict.ChangesMissed
			if f.Kind == deleted {
				*count++
				count = &j.verdict.DeletionsMissed
			}
			j.miss(count, d.report, f.UID,
				"%s of %s %s/%s at %d was never reported, and no GAP says so: the client went on to %d",
				f.Kind, f.Resource, f.Namespace, f.Name, f.Revision, d.to)
		}
	}
	for k, c := range j.cells {
		for _, f := range j.view.facts[k] {
			if c.first < 0 || f.Epoch < c.firstEpoch || f.Epoch == c.firstEpoch && f.Revision <= c.first {
				continue
			}
			reported := j.wasReported(f)
			j.verdict.details.reported[f.identity()] = reported
			if j.verdict.Changes++; !counted[key{k, f.identity()}] && !reported {
				j.verdict.ChangesInGaps++
			}
		}
	}
}

func (j *judgement) wasReported(f *fact) bool {
	if f.Kind == deleted {
		at, found := j.inferredEnds[f.UID]
		return j.reported[f.identity()] || found && j.view.history.precedes(f, at)
	}
	return j.reported[f.identity()] || f.Revision < j.retold[f.UID]
}
