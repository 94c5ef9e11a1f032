package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func eventSample(name string, gogc int, s size, seconds ...float64) *sample {
	p, _ := peerNamed(name)
	j := job{Peer: name, Phase: eventPhase, Scenario: scenario{Objects: 10, Size: s, Events: 1000}}
	x := &sample{measurement: measurement{name: name, peer: p, gogc: gogc, runs: len(seconds), job: j}}
	for _, v := range seconds {
		x.outcomes = append(x.outcomes, outcome{Events: 1000, Seconds: v, usage: usage{
			CPU: time.Duration(v * float64(time.Second)), Allocs: 140_000, Bytes: 7_000_000,
			PeakRSS: 30e6, BaseRSS: 20e6,
		}})
	}
	return x
}

func TestRows(t *testing.T) {
	ours, _ := peerNamed("ours")
	rejecting := eventSample("ours-select0", 100, small, 0.1)
	rejecting.outcomes[0].Events = 0 // Select rejects all
	rejecting.outcomes[0].Allocs = 0
	broken := eventSample("dynamicinformer", 100, small)
	broken.errs = []error{errors.New("no")}
	of := func(j job, outcomes ...outcome) *sample {
		return &sample{measurement: measurement{name: "ours", peer: ours, job: j}, outcomes: outcomes}
	}
	all := rows([]*sample{
		eventSample("ours", 100, small, 0.3, 0.1, 0.2),
		rejecting,
		broken,
		of(job{Phase: latencyPhase, Scenario: scenario{Rate: 4000}},
			outcome{Latency: latency{Reached: 3900, P50: 5, P99: 50, Max: 500}}),
		of(job{Phase: latencyPhase, Scenario: scenario{Rate: 1000}},
			outcome{Latency: latency{Reached: 990, P50: 1, P99: 10, Max: 100}},
			outcome{Latency: latency{Reached: 1000, P50: 3, P99: 30, Max: 300}}),
		of(job{Phase: heapPhase, Scenario: scenario{Objects: 77}}, outcome{HeapPerObject: 80}),
	})
	want := []*row{
		{
			Name: "ours", What: ours.what, GOGC: 100, Runs: 3, Events: 1000, Size: "2.8k",
			EventsPerS: new(5000.), CPUPerEvent: new(200.), Allocs: new(140.), Allocated: new(7000.),
			LatencyP50: new(2.), LatencyP99: new(20.), LatencyMax: new(200.),
			Latencies: []latency{
				{Rate: 4000, Reached: 3900, P50: 5, P99: 50, Max: 500},
				{Rate: 1000, Reached: 995, P50: 2, P99: 20, Max: 200},
			},
			HeapPerObject: new(80.), HeapObjects: 77, PeakRSS: new(30e6), BaseRSS: new(20e6),
		},
		{
			Name: "ours-select0", What: rejecting.peer.what, GOGC: 100, Runs: 1, Events: 1000, Size: "2.8k",
			EventsPerS: new(10_000.), CPUPerEvent: new(100.), Allocs: new(0.), Allocated: new(7000.),
			PeakRSS: new(30e6), BaseRSS: new(20e6),
		},
		{Name: "dynamicinformer", What: broken.peer.what, GOGC: 100, Size: "2.8k", Err: "no"},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Error(diff)
	}
	if err := failures(all); err == nil || !strings.Contains(err.Error(), "dynamicinformer failed") {
		t.Errorf("failures returned %v, want it to name dynamicinformer", err)
	}
}

func TestReport(t *testing.T) {
	var out strings.Builder
	report(&out, rows([]*sample{
		eventSample("dynamic", 100, small, 0.2), eventSample("ours", 100, small, 0.02),
		eventSample("ours-stock", 100, small, 0.4),
		eventSample("dynamic-11k", 100, big, 0.5), eventSample("ours-11k", 100, big, 0.1),
	}))
	want := strings.TrimLeft(`
Events (ratio: events/s relative to dynamic, with objects of the same size and the same GOGC)

| peer        | events/s | ratio | CPU us/event | allocs/event | B/event | peak RSS MB | events |
|-------------|---------:|------:|-------------:|-------------:|--------:|------------:|-------:|
| dynamic     |    5,000 |  1.00 |          200 |          140 |   7,000 |        30.0 |  1,000 |
| ours        |   50,000 |  10.0 |         20.0 |          140 |   7,000 |        30.0 |  1,000 |
| ours-stock  |    2,500 |  0.50 |          400 |          140 |   7,000 |        30.0 |  1,000 |
| dynamic-11k |    2,000 |  1.00 |          500 |          140 |   7,000 |        30.0 |  1,000 |
| ours-11k    |   10,000 |  5.00 |          100 |          140 |   7,000 |        30.0 |  1,000 |

Targets

| target                                         |   wanted | measured |        verdict |
|------------------------------------------------|---------:|---------:|---------------:|
| stream on NewClient vs dynamic Watch, events/s | >= 8.00x |    10.0x |            met |
| stream on NewClient vs dynamic Watch, 11 KB    | >= 7.00x |    5.00x | missed by 29 % |
| stream on NewClient, allocations per event     |   <= 140 |      140 |            met |
| stream on the stock client vs dynamic Watch    | >= 0.95x |    0.50x | missed by 48 % |
`, "\n")
	if diff := cmp.Diff(want, strings.TrimLeft(out.String(), "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "0.0012": 0.0012, "0.50": 0.5, "9.99": 9.99, "10.0": 9.999, "99.9": 99.9, "100": 99.96,
		"101": 100.6, "1,000": 1000, "1,234,567": 1234567, "999,999": 999999,
	} {
		if got := number(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		why      string
		target   target
		measured float64
		met      bool
		missed   float64
	}{
		{"a lower bound includes its value", target{want: 8}, 8, true, 0},
		{"half of a lower bound misses it by 0.5", target{want: 8}, 4, false, 0.5},
		{"an upper bound includes its value", target{want: 8, atMost: true}, 8, true, 0},
		{"twice an upper bound misses it by 1", target{want: 8, atMost: true}, 16, false, 1},
	} {
		if met, missed := tt.target.verdict(tt.measured); met != tt.met || missed != tt.missed {
			t.Errorf("%s: %v, missed by %v; want %v, %v", tt.why, met, missed, tt.met, tt.missed)
		}
	}
}

// TestTargetsAreMeasured: the plan measures every figure that a target needs.
func TestTargetsAreMeasured(t *testing.T) {
	plan, err := defaultSettings().plan()
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*row{}
	var all []*row
	for _, m := range plan {
		r := byName[m.name]
		if r == nil {
			r = &row{Name: m.name}
			byName[m.name], all = r, append(all, r)
		}
		switch m.job.Phase {
		case eventPhase:
			r.EventsPerS, r.CPUPerEvent, r.Allocs = new(1.), new(1.), new(1.)
		case latencyPhase:
			r.Latencies = append(r.Latencies, latency{Rate: m.job.Scenario.Rate, P99: 1})
		case snapshotPhase:
			r.Snapshot, r.PeakRSS = new(1.), new(1.)
		case heapPhase:
			r.HeapPerObject = new(1.)
		}
	}
	for _, goal := range targets() {
		if _, ok := goal.from(all); !ok {
			t.Errorf("%q needs a figure that the plan does not measure", goal.what)
		}
		if _, ok := goal.from(nil); ok {
			t.Errorf("%q has a figure without any measurement", goal.what)
		}
	}
}

func TestWriteJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "figures.json")
	if err := writeJSON(path, rows([]*sample{eventSample("ours", 100, small, 0.1)})); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{
		"name": "ours", "what": "a Stream on NewClient", "gogc": 100., "runs": 1., "events": 1000.,
		"object_size":  "2.8k",
		"events_per_s": 10_000., "cpu_us_per_event": 100., "allocs_per_event": 140., "bytes_per_event": 7000.,
		"peak_rss_bytes": 30e6, "base_rss_bytes": 20e6,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
