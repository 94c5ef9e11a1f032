package main

import (
	"slices"
	"time"
)

const restartsWatches = "restarts-watches"

// restarts are the times in which watches begin with what exists, whatever version they are given.
type restarts []fault

func restartsOf(faults []fault) (r restarts) {
	for _, f := range faults {
		if f.Name == restartsWatches {
			r = append(r, f)
		}
	}
	return r
}

// include reports whether watches may begin with what exists, or have just done so.
func (r restarts) include(at time.Time) bool {
	return slices.ContainsFunc(r, func(f fault) bool {
		return !at.Before(f.From) && at.Before(f.To.Add(5*time.Second))
	})
}

// hide reports whether a client may not have noticed a change at some time, because no list has been read since the
// last restart: it is still due.
func (r restarts) hide(c *cellState, at time.Time) bool {
	return slices.ContainsFunc(r, func(f fault) bool {
		return at.After(f.From.Add(-5*time.Second)) && c.relisted.Before(f.To)
	})
}

// upTo returns what is due after a GAP that may be about changes before the last reports: what the GAP says to be
// complete.
func upTo(due []interval, c *cellState, gap report) []interval {
	to := c.synced
	if gap.From != "" {
		to = max(to, revision(gap.From))
	}
	of := func(d interval) bool { return d.epoch == c.now.epoch }
	due = slices.DeleteFunc(due, func(d interval) bool { return of(d) && d.from >= to })
	for i := range due {
		if of(due[i]) {
			due[i].to = min(due[i].to, to)
		}
	}
	return due
}
