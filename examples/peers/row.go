package main

import (
	"cmp"
	"errors"
	"slices"
)

// row has the figures of a peer: medians of its runs, or nil where nothing was measured. It has 21 fields because it
// is the format of the JSON file.
type row struct {
	Name   string `json:"name"`
	What   string `json:"what"`
	GOGC   int    `json:"gogc"`
	Runs   int    `json:"runs"`             // of the event or snapshot measurement
	Events int    `json:"events,omitempty"` // of one run
	Size   string `json:"object_size"`

	EventsPerS  *float64 `json:"events_per_s,omitempty"`
	CPUPerEvent *float64 `json:"cpu_us_per_event,omitempty"`
	Allocs      *float64 `json:"allocs_per_event,omitempty"`
	Allocated   *float64 `json:"bytes_per_event,omitempty"`

	// At the lowest rate; Latencies has all rates.
	LatencyP50 *float64  `json:"latency_p50_us,omitempty"`
	LatencyP99 *float64  `json:"latency_p99_us,omitempty"`
	LatencyMax *float64  `json:"latency_max_us,omitempty"`
	Latencies  []latency `json:"latencies,omitempty"`

	Snapshot        *float64 `json:"first_snapshot_ms,omitempty"`
	SnapshotObjects int      `json:"first_snapshot_objects,omitempty"`
	HeapPerObject   *float64 `json:"heap_bytes_per_object,omitempty"`
	HeapObjects     int      `json:"held_objects,omitempty"`
	PeakRSS         *float64 `json:"peak_rss_bytes,omitempty"` // until the events or the snapshot ended
	BaseRSS         *float64 `json:"base_rss_bytes,omitempty"` // before the measurement

	Err string `json:"error,omitempty"`
}

// rows summarizes the samples, in their order.
func rows(samples []*sample) []*row {
	var all []*row
	byName := map[string]*row{}
	for _, s := range samples {
		r := byName[s.name]
		if r == nil {
			r = &row{Name: s.name, What: s.peer.what, GOGC: s.gogc, Size: string(s.job.Scenario.Size)}
			byName[s.name], all = r, append(all, r)
		}
		if err := errors.Join(s.errs...); err != nil {
			r.Err = cmp.Or(r.Err, err.Error())
		}
		if len(s.outcomes) > 0 {
			r.add(s)
		}
	}
	return all
}

func (r *row) add(s *sample) {
	of := func(value func(outcome) float64) *float64 {
		var values []float64
		for _, o := range s.outcomes {
			values = append(values, value(o))
		}
		return new(median(values))
	}
	switch s.job.Phase {
	case eventPhase:
		// Divided by the events that the server sent, including those that Select rejects.
		each := func(value func(outcome) float64) *float64 {
			return of(func(o outcome) float64 { return value(o) / float64(s.job.Scenario.Events) })
		}
		r.Runs, r.Events = len(s.outcomes), s.job.Scenario.Events
		r.EventsPerS = new(1 / *each(func(o outcome) float64 { return o.Seconds }))
		r.CPUPerEvent = each(func(o outcome) float64 { return float64(o.CPU.Nanoseconds()) / 1e3 })
		r.Allocs = each(func(o outcome) float64 { return float64(o.Allocs) })
		r.Allocated = each(func(o outcome) float64 { return float64(o.Bytes) })
	case latencyPhase:
		l := latency{
			Rate: s.job.Scenario.Rate, Reached: *of(func(o outcome) float64 { return o.Latency.Reached }),
			P50: *of(func(o outcome) float64 { return o.Latency.P50 }),
			P99: *of(func(o outcome) float64 { return o.Latency.P99 }),
			Max: *of(func(o outcome) float64 { return o.Latency.Max }),
		}
		r.Latencies = append(r.Latencies, l)
		lowest := slices.MinFunc(r.Latencies, func(a, b latency) int { return a.Rate - b.Rate })
		r.LatencyP50, r.LatencyP99, r.LatencyMax = &lowest.P50, &lowest.P99, &lowest.Max
		return
	case snapshotPhase:
		r.Runs, r.SnapshotObjects = len(s.outcomes), s.job.Scenario.Objects
		r.Snapshot = of(func(o outcome) float64 { return o.Seconds * 1e3 })
	case heapPhase:
		r.HeapObjects = s.job.Scenario.Objects
		r.HeapPerObject = of(func(o outcome) float64 { return o.HeapPerObject })
		return
	}
	r.PeakRSS = of(func(o outcome) float64 { return float64(o.PeakRSS) })
	r.BaseRSS = of(func(o outcome) float64 { return float64(o.BaseRSS) })
}

// find returns the row with a name, or one without figures.
func find(all []*row, name string) *row {
	if i := slices.IndexFunc(all, func(r *row) bool { return r.Name == name }); i >= 0 {
		return all[i]
	}
	return &row{Name: name}
}

// at returns the latency at a rate, if it was measured.
func (r *row) at(rate int) (latency, bool) {
	i := slices.IndexFunc(r.Latencies, func(l latency) bool { return l.Rate == rate })
	if i < 0 {
		return latency{}, false
	}
	return r.Latencies[i], true
}
