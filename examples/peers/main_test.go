package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain runs the children that tests start.
func TestMain(m *testing.M) {
	if code, child := runChild(); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestEveryPeer: each peer delivers exactly the events that the server sends, and has figures for each measurement.
func TestEveryPeer(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds (.ci/run runs it, without -short)")
	}
	s := defaultSettings()
	s.events, s.objects, s.runs, s.timedRuns, s.snapshotObjects, s.heapObjects = 216, 20, 1, 1, 600, 100
	s.rates, s.latency = []int{1000}, 50*time.Millisecond
	plan, err := s.plan()
	if err != nil {
		t.Fatal(err)
	}
	samples, err := measureAll(t.Context(), s, plan, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range samples {
		if err := errors.Join(x.errs...); err != nil {
			t.Errorf("%s, %s: %v", x.job.Phase, x.name, err)
			continue
		}
		o := x.outcomes[0]
		want := x.job.Scenario.Events
		switch x.name {
		case "ours-select10":
			want = 22 // of the objects 0 and 10 of 20: ten rounds have two each, the last 16 events have two more
		case "ours-mux8-select10":
			want = 18 // the namespaces of those two objects have 27 events each, of three objects
		}
		if x.job.Phase == eventPhase && o.Events != want {
			t.Errorf("%s delivered %d events, want %d", x.name, o.Events, want)
		}
		if x.job.Phase == latencyPhase && (o.Latency.Max <= 0 || o.Latency.Reached <= 0) {
			t.Errorf("%s has latency %+v, want positive figures", x.name, o.Latency)
		}
		if x.job.Phase == heapPhase && o.HeapPerObject <= 0 {
			t.Errorf("%s retains %v bytes per object, want more than 0", x.name, o.HeapPerObject)
		}
		if o.CPU <= 0 || o.Seconds <= 0 {
			t.Errorf("%s, %s: %s of CPU time in %v s, want more than 0", x.job.Phase, x.name, o.CPU, o.Seconds)
		}
	}
}

// TestProgram runs the whole program for two peers: it prints tables, and writes the JSON file and the profiles.
func TestProgram(t *testing.T) {
	file, profiles := filepath.Join(t.TempDir(), "figures.json"), filepath.Join(t.TempDir(), "profiles")
	var out strings.Builder
	args := []string{
		"-quick", "-events", "100", "-runs", "1", "-only", "ours-stock,retrywatcher",
		"-json", file, "-cpuprofile", profiles,
	}
	if err := program(t.Context(), args, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"| retrywatcher |", "| ours-stock   |"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
	var all []row
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Errorf("the file has %d rows, want 2", len(all))
	}
	for _, r := range all {
		if r.EventsPerS == nil || r.LatencyP99 == nil {
			t.Errorf("%s lacks events/s or latency", r.Name)
		}
	}
	made, err := filepath.Glob(filepath.Join(profiles, "*.pprof"))
	if err != nil || len(made) != 4 { // events and latency of each peer
		t.Errorf("profiles: %v (%v), want 4", made, err)
	}
}

// TestPeerNames: the events of these peers are always measured, since readers of the JSON file look for them.
func TestPeerNames(t *testing.T) {
	for _, quick := range []bool{false, true} {
		s := defaultSettings()
		if quick {
			s.makeQuick()
		}
		plan, err := s.plan()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{
			"dynamic", "retrywatcher", "dynamicinformer", "controller-runtime", "metadata-informer",
			"ours-stock", "ours", "ours-2workers", "ours-nomanaged", "ours-select10", "ours-metadata",
			"ours-mux8", "ours-mux8-select10", "ours-checkpoint", "informer-on-ours",
			"raw-socket", "metadata-scan", "dynamic-on-ours", "ours-select0", "ours-11k", "dynamic-11k",
		} {
			measured := func(m measurement) bool { return m.name == name && m.job.Phase == eventPhase }
			if !slices.ContainsFunc(plan, measured) {
				t.Errorf("quick %v: %s is not measured", quick, name)
			}
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
		{"-only names existing peers", []string{"-only", "ours,theirs"}, `unknown peer "theirs": must be one of`},
		{"there is at least one run", []string{"-runs", "0"}, "at least 1"},
		{"each namespace has an event", []string{"-events", "3"}, "-events must be at least 8"},
		{"there are at most as many objects as templates", []string{"-objects", "5000"}, "between 8 and 1000"},
	} {
		err := program(t.Context(), tt.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.why, err, tt.want)
		}
	}
}

// TestFlagsOverrideQuick: explicit flags override -quick, before and after it.
func TestFlagsOverrideQuick(t *testing.T) {
	s, _, err := parse([]string{"-runs", "3", "-quick"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.runs != 3 || s.events >= defaultSettings().events || s.gogc != 100 {
		t.Errorf("settings %+v, want 3 runs, fewer events than usual, and GOGC 100", s)
	}
}

// TestCancelStopsChildren: no child process is left when the context ends during a measurement.
func TestCancelStopsChildren(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	s := defaultSettings()
	plan, err := s.plan()
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { cancel(stop) }) // during a measurement
	if _, err := measureAll(ctx, s, plan, io.Discard); !errors.Is(err, stop) {
		t.Errorf("measureAll returned %v, want %v", err, stop)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("children are left: %v", left)
	}
}

// children returns the child processes of this process, or none where there is no /proc.
func children(t *testing.T) []string {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // threads come and go
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// TestChildEndsWithItsParent: a child ends when its standard input ends, even during a measurement.
func TestChildEndsWithItsParent(t *testing.T) {
	server, url, err := startServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	long := scenario{Objects: 8, Size: small, Rate: 100, Length: time.Hour}
	path, err := (&measurer{server: url}).call(t.Context(), "POST", "/runs", long)
	if err != nil {
		t.Fatal(err)
	}
	peer, err := start(t.Context(), peerRole)
	if err != nil {
		t.Fatal(err)
	}
	j := job{
		Peer: "dynamic", Phase: latencyPhase, Scenario: scenario{Rate: 100, Length: time.Hour}, URL: url + path,
	}
	if err := json.NewEncoder(peer.in).Encode(j); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*child{peer, server} {
		over := time.AfterFunc(20*time.Second, func() { c.cmd.Process.Kill() })
		c.end()
		if !over.Stop() {
			t.Errorf("process %d did not end within 20s", c.cmd.Process.Pid)
		}
	}
}
