package main

// target is a line of the table.
type target struct {
	what   string
	want   float64
	unit   string // "x", or what is counted
	atMost bool   // want is the most, not the least
	from   func([]*row) (float64, bool)
}

// ratio is one peer's figure by another's.
func ratio(of, to string, figure func(*row) *float64) func([]*row) (float64, bool) {
	return func(all []*row) (float64, bool) {
		a, b := figure(find(all, of)), figure(find(all, to))
		if a == nil || b == nil || *b == 0 {
			return 0, false
		}
		return *a / *b, true
	}
}

func value(of string, scale float64, figure func(*row) *float64) func([]*row) (float64, bool) {
	return func(all []*row) (float64, bool) {
		v := figure(find(all, of))
		if v == nil {
			return 0, false
		}
		return *v * scale, true
	}
}

func p99At(rate int) func(*row) *float64 {
	return func(r *row) *float64 {
		if l, ok := r.at(rate); ok {
			return &l.P99
		}
		return nil
	}
}

func speed(r *row) *float64    { return r.EventsPerS }
func cpu(r *row) *float64      { return r.CPUPerEvent }
func allocs(r *row) *float64   { return r.Allocs }
func snapshot(r *row) *float64 { return r.Snapshot }
func peakRSS(r *row) *float64  { return r.PeakRSS }
func heap(r *row) *float64     { return r.HeapPerObject }

// targets are those of the issue, in its order.
func targets() []target {
	faster := func(what, of, to string, want float64) target {
		return target{what: what, want: want, unit: "x", from: ratio(of, to, speed)}
	}
	return []target{
		faster("stream on NewClient vs dynamic Watch, events/s", "ours", "dynamic", 8),
		faster("stream on NewClient vs RetryWatcher, events/s", "ours", "retrywatcher", 8),
		faster("the same, 11 KB events, vs dynamic Watch", "ours-11k", "dynamic-11k", 7),
		{what: "its allocations per event", want: 140, atMost: true, from: value("ours", 1, allocs)},
		faster("at GOGC=400, vs dynamic Watch at 400", otherName("ours"), otherName("dynamic"), 11),
		faster("at GOGC=400, vs dynamic Watch at 100", otherName("ours"), "dynamic", 11),
		faster("stream on NewClient vs dynamicinformer, events/s", "ours", "dynamicinformer", 8.4),
		{what: "CPU per event, dynamicinformer / ours", want: 7, unit: "x", from: ratio("dynamicinformer", "ours", cpu)},
		faster("NewClient as a dynamic.Interface vs stock", "dynamic-on-ours", "dynamic", 6),
		faster("dynamicinformer on NewClient vs on stock", "informer-on-ours", "dynamicinformer", 7),
		faster("two ordered decode workers vs dynamic Watch", "ours-2workers", "dynamic", 9),
		faster("two workers, both at GOGC=400", otherName("ours-2workers"), otherName("dynamic"), 14),
		faster("two workers at GOGC=400 vs dynamic Watch at 100", otherName("ours-2workers"), "dynamic", 14),
		faster("managedFields dropped vs dynamic Watch", "ours-nomanaged", "dynamic", 10),
		faster("Select rejecting 90 % vs dynamic Watch", "ours-select10", "dynamic", 40),
		faster("Select rejecting everything vs dynamic Watch", "ours-select0", "dynamic", 150),
		// None: what the process does besides, and what is made once, is less than this.
		{what: "its allocations per event", want: 0.01, atMost: true, from: value("ours-select0", 1, allocs)},
		faster("MetadataOnly vs metadata informer (JSON)", "ours-metadata", "metadata-informer", 3),
		faster("stream on the stock client vs dynamic Watch", "ours-stock", "dynamic", 0.95),
		{what: "first snapshot, dynamic list / watch-list", want: 7, unit: "x", from: ratio("dynamic-list", "ours-watchlist", snapshot)},
		{what: "first snapshot, dynamic list / pages", want: 7, unit: "x", from: ratio("dynamic-list", "ours-pages", snapshot)},
		{what: "peak RSS of a snapshot, watch-list", want: 45, unit: "MB", atMost: true, from: value("ours-watchlist", 1e-6, peakRSS)},
		{what: "peak RSS of a snapshot, pages", want: 80, unit: "MB", atMost: true, from: value("ours-pages", 1e-6, peakRSS)},
		{what: "live heap per object", want: 88, unit: "B", atMost: true, from: value("ours", 1, heap)},
		{what: "live heap, dynamicinformer / ours", want: 200, unit: "x", from: ratio("dynamicinformer", "ours", heap)},
		{what: "latency p99 at 1,000/s", want: 500, unit: "us", atMost: true, from: value("ours", 1, p99At(1000))},
		{what: "latency p99 at 4,000/s, dynamic Watch / ours", want: 3, unit: "x", from: ratio("dynamic", "ours", p99At(4000))},
		{what: "latency p99 at 4,000/s, dynamicinformer / ours", want: 10, unit: "x", from: ratio("dynamicinformer", "ours", p99At(4000))},
		faster("mux of 8 vs a single stream", "ours-mux8", "ours", 0.9),
		faster("the same, Select rejecting 90 %", "ours-mux8-select10", "ours-select10", 0.9),
		faster("with file checkpoint and acks vs without", "ours-checkpoint", "ours", 0.8),
	}
}

// verdict says whether a target is met, or by how much it is missed.
func (t target) verdict(measured float64) (met bool, missed float64) {
	if t.atMost {
		return measured <= t.want, measured/t.want - 1
	}
	return measured >= t.want, 1 - measured/t.want
}
