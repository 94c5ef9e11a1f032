package main

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// interval is a time in which something was broken.
type interval struct{ from, to time.Time }

// outage is an interval in which NATS could not be used.
type outage struct {
	during  interval
	what    string
	replica string // the only one for which that is so; empty: for all
}

// denied returns the samples that say that all is well in the last part of an outage, which begins when that has lasted
// for a tolerance, and how many samples there were. Those that were not answered within the outage say nothing of it.
func denied(samples []sample, outages []outage, tolerance time.Duration) (broken []string, judged int) {
	for _, s := range samples {
		for _, o := range outages {
			known := o.during.from.Add(tolerance)
			if o.replica != "" && o.replica != s.replica || s.from.Before(known) || s.to.After(o.during.to) {
				continue
			}
			judged++
			if s.well {
				broken = append(broken, fmt.Sprintf("%s: %s since %s", s, o.what, clock(o.during.from)))
			}
		}
	}
	return broken, judged
}

// acked is a write, and when the API server had acknowledged it.
type acked struct {
	state write
	at    time.Time
}

// publication is a write that is in the log.
type publication struct {
	write     acked
	unit      engine.Unit
	published time.Time
}

// publications returns the writes that are in the log. Those that are not may have been skipped by a list: see lost.
func publications(log []record, writes []acked) []publication {
	found := map[write]record{}
	for _, r := range log {
		if m := r.message; m != nil && m.UID != "" && m.Type != engine.Deleted {
			found[write{m.Unit.Resource, m.UID, m.ResourceVersion}] = r
		}
	}
	var all []publication
	for _, w := range writes {
		if r, known := found[w.state]; known {
			all = append(all, publication{w, r.message.Unit.Whole(), r.time})
		}
	}
	return all
}

// untrue returns the samples that say that all is well, although a write that was acknowledged a tolerance before was
// published only after: those of status, and those of the replica that owned the write's unit. Writes that waited while
// an API server was silent do not count, as a relay can't know of them, nor do samples that overlap the intervals
// excused.
func untrue(
	log []record, writes []publication, samples []sample, silent, excused []interval, tolerance time.Duration,
) (broken []string) {
	owners := ownersOf(log)
	late := slices.DeleteFunc(slices.Clone(writes), func(w publication) bool {
		return w.published.Sub(w.write.at) <= tolerance || overlap(silent, w.write.at, w.published)
	})
	for _, s := range samples {
		if !s.well || overlap(excused, s.from, s.to) {
			continue
		}
		for _, w := range late {
			if !w.write.at.Before(s.from.Add(-tolerance)) || !w.published.After(s.to) {
				continue
			}
			if s.replica != "" && !owners.held(w.unit, s.replica, s.from, s.to) {
				continue
			}
			broken = append(broken, fmt.Sprintf("%s: %s version %s is acknowledged at %s, published at %s", s, w.unit,
				w.write.state.version, clock(w.write.at), clock(w.published)))
			break
		}
	}
	return broken
}

func overlap(all []interval, from, to time.Time) bool {
	return slices.ContainsFunc(all, func(i interval) bool { return !from.After(i.to) && !to.Before(i.from) })
}

// owners has the positions of each unit, in the order of the log.
type owners map[engine.Unit][]record

func ownersOf(log []record) owners {
	all := owners{}
	for _, r := range log {
		if r.position != nil {
			all[r.position.Unit] = append(all[r.position.Unit], r)
		}
	}
	return all
}

// held reports whether a replica owned a unit from one time to another, without a break.
func (o owners) held(u engine.Unit, replica string, from, to time.Time) bool {
	first, last := o.at(u, from), o.at(u, to)
	return first.Owner == replica && last.Owner == replica && first.Epoch == last.Epoch
}

// at returns the position of a unit at a time, or the zero Position.
func (o owners) at(u engine.Unit, t time.Time) engine.Position {
	all := o[u]
	i := sort.Search(len(all), func(i int) bool { return all[i].time.After(t) })
	if i == 0 {
		return engine.Position{}
	}
	return all[i-1].position.Position
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }
