package main

// target is a figure that a measurement should reach.
type target struct {
	what   string
	want   float64
	unit   string // "x" for a ratio
	atMost bool   // want is an upper bound, not a lower one
	from   func([]*row) (float64, bool)
}

// ratio divides one peer's figure by another's.
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

// targets returns the targets in the order of the table.
func targets() []target {
	times := func(what string, want float64, from func([]*row) (float64, bool)) target {
		return target{what: what, want: want, unit: "x", from: from}
	}
	faster := func(what, of, to string, want float64) target {
		return times(what, want, ratio(of, to, speed))
	}
	limit := func(what string, want float64, unit string, from func([]*row) (float64, bool)) target {
		return target{what: what, want: want, unit: unit, atMost: true, from: from}
	}
	return []target{
		faster("stream on NewClient vs dynamic Watch, events/s", "ours", "dynamic", 8),
		faster("stream on NewClient vs RetryWatcher, events/s", "ours", "retrywatcher", 8),
		faster("stream on NewClient vs dynamic Watch, 11 KB", "ours-11k", "dynamic-11k", 7),
		limit("stream on NewClient, allocations per event", 140, "", value("ours", 1, allocs)),
		faster("at GOGC=400, vs dynamic Watch at 400", otherName("ours"), otherName("dynamic"), 11),
		faster("at GOGC=400, vs dynamic Watch at 100", otherName("ours"), "dynamic", 11),
		faster("stream on NewClient vs dynamicinformer, events/s", "ours", "dynamicinformer", 8.4),
		times("CPU per event, dynamicinformer / ours", 7, ratio("dynamicinformer", "ours", cpu)),
		faster("NewClient as a dynamic.Interface vs stock", "dynamic-on-ours", "dynamic", 6),
		faster("dynamicinformer on NewClient vs on stock", "informer-on-ours", "dynamicinformer", 7),
		faster("two ordered decode workers vs dynamic Watch", "ours-2workers", "dynamic", 9),
		faster("two workers, both at GOGC=400", otherName("ours-2workers"), otherName("dynamic"), 14),
		faster("two workers at GOGC=400 vs dynamic Watch at 100", otherName("ours-2workers"), "dynamic", 14),
		faster("managedFields dropped vs dynamic Watch", "ours-nomanaged", "dynamic", 10),
		faster("Select rejecting 90 % vs dynamic Watch", "ours-select10", "dynamic", 40),
		faster("Select rejecting everything vs dynamic Watch", "ours-select0", "dynamic", 150),
		// 0.01 means none per event: the allocations of the rest of the process stay below that.
		limit("Select rejecting everything, allocations per event", 0.01, "", value("ours-select0", 1, allocs)),
		faster("Metadata vs metadata informer (JSON)", "ours-metadata", "metadata-informer", 3),
		faster("stream on the stock client vs dynamic Watch", "ours-stock", "dynamic", 0.95),
		times("first snapshot, dynamic list / streaming list", 7, ratio("dynamic-list", "ours-watchlist", snapshot)),
		times("first snapshot, dynamic list / pages", 7, ratio("dynamic-list", "ours-pages", snapshot)),
		limit("peak RSS of a snapshot, streaming list", 45, "MB", value("ours-watchlist", 1e-6, peakRSS)),
		limit("peak RSS of a snapshot, pages", 80, "MB", value("ours-pages", 1e-6, peakRSS)),
		limit("live heap per object", 88, "B", value("ours", 1, heap)),
		times("live heap, dynamicinformer / ours", 200, ratio("dynamicinformer", "ours", heap)),
		limit("latency p99 at 1,000/s", 500, "us", value("ours", 1, p99At(1000))),
		times("latency p99 at 4,000/s, dynamic Watch / ours", 3, ratio("dynamic", "ours", p99At(4000))),
		times("latency p99 at 4,000/s, dynamicinformer / ours", 10, ratio("dynamicinformer", "ours", p99At(4000))),
		faster("mux of 8 vs a single stream", "ours-mux8", "ours", 0.9),
		faster("mux of 8 vs a single stream, Select rejecting 90 %", "ours-mux8-select10", "ours-select10", 0.9),
		faster("with file checkpoint and acks vs without", "ours-checkpoint", "ours", 0.8),
	}
}

// verdict reports whether a target is met, or by which share it is missed.
func (t target) verdict(measured float64) (met bool, missed float64) {
	if t.atMost {
		return measured <= t.want, measured/t.want - 1
	}
	return measured >= t.want, 1 - measured/t.want
}
