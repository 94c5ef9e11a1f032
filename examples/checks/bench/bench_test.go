package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMain runs the peers that tests start.
func TestMain(m *testing.M) {
	if j := os.Getenv(jobVariable); j != "" {
		child(j)
	}
	os.Exit(m.Run())
}

// TestEveryPeer: each peer delivers exactly the events that the server sends, and all targets have figures.
func TestEveryPeer(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds (.ci/run runs it, without -short)")
	}
	rows, err := settings{part: 1000, runs: 1, caches: true}.measure(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r["error"] != nil || r["runs"] != 1. {
			t.Errorf("%s has %v runs: %v", r["name"], r["runs"], r["error"])
		}
	}
	if n := len(verdicts(rows)); n != len(targets) {
		t.Errorf("%d of %d targets have figures", n, len(targets))
	}
}

// TestProgram: the program prints tables, writes the file, the profiles and the chart, and reads the file again.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	file, profiles := filepath.Join(dir, "figures.json"), filepath.Join(dir, "profiles")
	svg := filepath.Join(dir, "bench.svg")
	var out, again strings.Builder
	measure := []string{"-quick", "-only", "ours-pages,dynamic-list", "-json", file, "-cpuprofile", profiles}
	if err := program(t.Context(), measure, &out, t.Output()); err != nil {
		t.Fatal(err)
	}
	if err := program(t.Context(), []string{"-from", file, "-svg", svg}, &again, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(out.String(), again.String()) || !strings.Contains(again.String(), "\n| ours-pages ") {
		t.Errorf("-from prints other tables, or no row of ours-pages:\n%s\n%s", out.String(), again.String())
	}
	for _, made := range []string{svg, filepath.Join(profiles, "dynamic-list-snapshot-1.pprof")} {
		if info, err := os.Stat(made); err != nil || info.Size() == 0 {
			t.Errorf("%s was not written: %v", made, err)
		}
	}
}

func TestInvalidFlags(t *testing.T) {
	for _, tt := range []struct {
		why  string
		args []string
		want string
	}{
		{"there are no positional arguments", []string{"ours"}, `invalid argument "ours": must be a flag`},
		{"-only names existing rows", []string{"-only", "ours,theirs"}, `there is no row ["theirs"]`},
		{"-from names an existing file", []string{"-from", "/nothing"}, "no such file"},
	} {
		err := program(t.Context(), tt.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.why, err, tt.want)
		}
	}
}

// TestFailuresAreReported: a peer whose server is gone fails, and the report names it.
func TestFailuresAreReported(t *testing.T) {
	j := job{Measurement: measurements(1000)[0], Server: "http://127.0.0.1:1"}
	figures, err := j.do(t.Context())
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Fatalf("the job returned %v and %v, want an error of the connection", figures, err)
	}
	if err := report(io.Discard, add(nil, j.Measurement, nil, err)); err == nil {
		t.Error("the report has no error")
	}
}

// TestCancelEndsThePeer: no peer is left when the context ends during a measurement.
func TestCancelEndsThePeer(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	time.AfterFunc(time.Second, func() { cancel(stop) }) // within the first runs
	if _, err := (settings{part: 1, runs: 5}).measure(ctx, io.Discard); !errors.Is(err, stop) {
		t.Errorf("measure returned %v, want %v", err, stop)
	}
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		if children, _ := os.ReadFile(task); len(children) > 0 {
			t.Errorf("children are left: %s", children)
		}
	}
}

func TestSummary(t *testing.T) {
	of := func(name string) measurement { return measurement{Peer: peer{Name: name}, Kind: "events", GOGC: 100} }
	var rows []row
	for _, v := range []float64{300, 100, 200} { // the median is not the mean
		rows = add(rows, of("ours"), map[string]float64{speed: 10 * v, "cpu_us_per_event": v}, nil)
		rows = add(rows, of("dynamic"), map[string]float64{speed: v * v / 200, "cpu_us_per_event": 2 * v}, nil)
	}
	rows = add(rows, of("ours"), map[string]float64{"heap_bytes_per_object": 80}, nil) // measured once
	rows = add(rows, of("retrywatcher"), nil, errors.New("no"))
	summarize(rows)
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	var got []row
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	common := func(r row) row {
		r["what"], r["base"], r["object_size"], r["gogc"], r["live_mb"] = "", "dynamic", "", 100., 0.
		return r
	}
	want := []row{
		common(row{"name": "ours", "runs": 3., speed: 2000., "cpu_us_per_event": 200., "ratio": 10., "cpu_ratio": 2.,
			"heap_bytes_per_object": 80.}),
		common(row{"name": "dynamic", "runs": 3., speed: 200., "cpu_us_per_event": 400., "ratio": 1., "cpu_ratio": 1.}),
		common(row{"name": "retrywatcher", "runs": 0., "error": "events: no"}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestVerdicts(t *testing.T) {
	for _, tt := range []struct {
		why                   string
		p99us, ratio          float64
		p99Verdict, ratioWant string
	}{
		{"a bound includes its value", 400, 10, "met", "met"},
		{"half of a lower bound, and twice an upper one", 800, 5, "missed by 100 %", "missed by 50 %"},
	} {
		got := verdicts([]row{
			{"name": "ours", p99 + "1000": tt.p99us, p99 + "4000": 1.}, {"name": "dynamic", p99 + "4000": tt.ratio},
		})
		if len(got) != 2 || got[0]["verdict"] != tt.p99Verdict || got[1]["verdict"] != tt.ratioWant {
			t.Errorf("%s: %v", tt.why, got)
		}
	}
}

// TestRatiosOfCaches: after each compact cache come its figures, divided by those of the plain one.
func TestRatiosOfCaches(t *testing.T) {
	const heap, get = "cache_heap_bytes", "cache_get_cold_p50"
	rows := []row{
		{"name": "ours", speed: 5.},
		{"name": "pods-typed", "what": "plain", heap: 100., get: 2.},
		{"name": "pods-door", heap: 8.}, // has no reader
		{"name": "pods-typed-compact", "what": "compact", heap: 25., get: 5.},
		{"name": "pods-door-compact", heap: 4.},
	}
	want := slices.Insert(slices.Clone(rows), 4, row{"name": "... ratio", heap: 0.25, get: 2.5})
	want = append(want, row{"name": "... ratio", heap: 0.5})
	if diff := cmp.Diff(want, withRatios(rows)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	alone := row{"name": "pods-typed-compact", heap: 25.}
	if ratio := withRatios([]row{alone})[1][heap].(float64); !math.IsNaN(ratio) {
		t.Errorf("without a plain cache the ratio is %v", ratio)
	}
}
