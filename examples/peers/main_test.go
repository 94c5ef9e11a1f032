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

// TestMain lets the children of tests be what they are.
func TestMain(m *testing.M) {
	if code, child := runChild(); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// TestEveryPeer has each take some two hundred events, and tell of exactly those.
func TestEveryPeer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
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
			want = 22 // of the objects 0 and 10 of 20; 216 is 16 more than ten times around
		case "ours-mux8-select10":
			want = 18 // a third of the 27 events of each of the namespaces of those objects
		}
		if x.job.Phase == eventPhase && o.Events != want {
			t.Errorf("%s told %d events, want %d", x.name, o.Events, want)
		}
		if x.job.Phase == latencyPhase && (o.Latency.Max <= 0 || o.Latency.Reached <= 0) {
			t.Errorf("%s has the latency %+v", x.name, o.Latency)
		}
		if x.job.Phase == heapPhase && o.HeapPerObject <= 0 {
			t.Errorf("%s holds %v bytes for an object", x.name, o.HeapPerObject)
		}
		if o.CPU <= 0 || o.Seconds <= 0 {
			t.Errorf("%s, %s: took %s of CPU time in %v s", x.job.Phase, x.name, o.CPU, o.Seconds)
		}
	}
}

// TestProgram goes all the way, for two peers.
func TestProgram(t *testing.T) {
	file, profiles := filepath.Join(t.TempDir(), "figures.json"), filepath.Join(t.TempDir(), "profiles")
	var out strings.Builder
	err := program(t.Context(), []string{"-quick", "-events", "100", "-runs", "1", "-only", "ours-stock,retrywatcher", "-json", file, "-cpuprofile", profiles}, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"| retrywatcher |", "| ours-stock   |"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("there is no line %q in\n%s", line, out.String())
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
		t.Errorf("the file has %d rows", len(all))
	}
	for _, r := range all {
		if r.EventsPerS == nil || r.LatencyP99 == nil {
			t.Errorf("%s lacks what was measured", r.Name)
		}
	}
	made, err := filepath.Glob(filepath.Join(profiles, "*.pprof"))
	if err != nil || len(made) != 4 { // of events and of latencies
		t.Errorf("the profiles are %v, %v", made, err)
	}
}

// TestNames: these are what those who read the file look for.
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
			"dynamic", "retrywatcher", "dynamicinformer", "controller-runtime", "metadata-informer", "ours-stock", "ours", "ours-2workers",
			"ours-nomanaged", "ours-select10", "ours-metadata", "ours-mux8", "ours-mux8-select10",
			"ours-checkpoint", "informer-on-ours",
			"raw-socket", "metadata-scan", "dynamic-on-ours", "ours-select0", "ours-11k", "dynamic-11k",
		} {
			if !slices.ContainsFunc(plan, func(m measurement) bool { return m.name == name && m.job.Phase == eventPhase }) {
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
		{"an argument", []string{"ours"}, `"ours" is no flag`},
		{"a peer that there is not", []string{"-only", "ours,theirs"}, `there is no "theirs": there are`},
		{"no runs", []string{"-runs", "0"}, "at least 1"},
		{"fewer events than namespaces", []string{"-events", "3"}, "-events should be at least 8"},
		{"more objects than there are made", []string{"-objects", "5000"}, "between 8 and 1000"},
	} {
		err := program(t.Context(), tt.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.why, err, tt.want)
		}
	}
}

// TestQuick: what the flags say is not overruled, wherever they stand.
func TestFlagsOverrideQuick(t *testing.T) {
	s, _, err := parse([]string{"-runs", "3", "-quick"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s.runs != 3 || s.events >= defaultSettings().events || s.gogc != 100 {
		t.Errorf("the settings are %+v", s)
	}
}

// TestInterrupted: nobody is left behind when it ends early.
func TestCancelStopsChildren(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	s := defaultSettings()
	plan, err := s.plan()
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { cancel(stop) }) // in the midst of something
	if _, err := measureAll(ctx, s, plan, io.Discard); !errors.Is(err, stop) {
		t.Errorf("it ended with %v", err)
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("children are left: %v", left)
	}
}

// children are those of this process, where /proc tells of them.
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

// TestOrphans: a child ends when its parent is gone, whatever it is doing.
func TestChildEndsWithItsParent(t *testing.T) {
	server, url, err := startServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path, err := (&measurer{server: url}).call(t.Context(), "POST", "/runs", scenario{Objects: 8, Size: small, Rate: 100, Length: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	peer, err := start(t.Context(), peerRole)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(peer.in).Encode(job{Peer: "dynamic", Phase: latencyPhase, Scenario: scenario{Rate: 100, Length: time.Hour}, URL: url + path}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*child{peer, server} {
		over := time.AfterFunc(20*time.Second, func() { c.cmd.Process.Kill() })
		c.end()
		if !over.Stop() {
			t.Errorf("process %d did not end", c.cmd.Process.Pid)
		}
	}
}
