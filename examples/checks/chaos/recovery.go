package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// samples are durations by the name of a fault.
type samples map[string][]time.Duration

// never is the duration of what did not end.
const never time.Duration = math.MaxInt64

// medians returns the medians in milliseconds, -1 for never; that of all has the key "".
func (s samples) medians() map[string]int64 {
	out := map[string]int64{}
	var all []time.Duration
	for name, d := range s {
		out[name] = median(d)
		all = append(all, d...)
	}
	if len(all) > 0 {
		out[""] = median(all)
	}
	return out
}

// median returns the median of at least one duration in milliseconds, or -1 for never.
func median(d []time.Duration) int64 {
	slices.Sort(d)
	if m := d[len(d)/2]; m != never {
		return m.Milliseconds()
	}
	return -1
}

func (s samples) add(other samples) {
	for name, d := range other {
		s[name] = append(s[name], d...)
	}
}

func (d details) times() times {
	return times{Recovery: d.recoveries.medians(), Synced: d.syncs.medians()}
}

// recover measures the time back after each fault.
func (j *judgement) recover() {
	type moment struct{ committed, reported time.Time }
	var moments []moment // of live reports, by the time of the report
	for _, r := range j.reports {
		if r.UID == "" || r.Inferred || r.ResourceVersion == "" {
			continue
		}
		if f, _ := j.view.find(r, len(j.view.history.epochs)-1); f != nil {
			moments = append(moments, moment{f.At, r.At})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return a.reported.Compare(b.reported) })
	written, found := j.view.latest(j.resource), j.verdict.details
	for _, f := range j.faults {
		i, _ := slices.BinarySearchFunc(moments, f.To, func(m moment, t time.Time) int {
			return cmp.Or(m.reported.Compare(t), 1) // the first one after t
		})
		for i < len(moments) && !moments[i].committed.After(f.To) {
			i++
		}
		if i < len(moments) {
			found.recoveries[f.Name] = append(found.recoveries[f.Name], moments[i].reported.Sub(f.To))
		} else if written.After(f.To) {
			found.recoveries[f.Name] = append(found.recoveries[f.Name], never)
		}
		if d, inGap := j.untilSynced(f.To); inGap {
			found.syncs[f.Name] = append(found.syncs[f.Name], d)
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
