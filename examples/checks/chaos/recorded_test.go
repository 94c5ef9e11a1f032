package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	recorded "github.com/gvrwatch/gvrwatch/internal/recording"
	"github.com/gvrwatch/gvrwatch/stream"
)

// writeTape records events in the notation of the tests as the tool does. "run" and "resumed" begin another run.
func writeTape(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tape.rec")
	var w *recorded.Writer
	begin := func(start recorded.Start) {
		if w != nil {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if w, err = recorded.Create(path, recorded.Header{Start: start, Program: "gvrwatch v9"}); err != nil {
			t.Fatal(err)
		}
	}
	begin(recorded.Snapshot)
	resource := gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Namespaced: true,
	}
	for step := range strings.SplitSeq(text, ", ") {
		if step == "run" || step == "resumed" {
			begin(map[string]recorded.Start{"run": recorded.Snapshot, "resumed": recorded.Resumed}[step])
			continue
		}
		r := parseReport(step)
		ev := stream.Event{
			Type: stream.Type(r.Kind), Resource: resource, ResourceVersion: r.ResourceVersion, Inferred: r.Inferred,
		}
		switch {
		case r.UID != "":
			b, err := json.Marshal(reportLine(r).Object)
			if err != nil {
				t.Fatal(err)
			}
			ev.JSON = b
		case r.Kind == gap:
			ev.Gap = &stream.GapDetails{Reason: stream.GapExpired}
		}
		if err := w.Add(time.Unix(1000, 0), ev, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCheckOfWhatTheToolHasRecorded: between runs nobody recorded, unless a run resumes.
func TestCheckOfWhatTheToolHasRecorded(t *testing.T) {
	const truth = "+u@1, +v@2, ~u@3, -v@4, +w@5, ~u@6, ~w@7"
	for _, test := range []struct {
		why, tape string
		want      counts
	}{
		{"one run", "+u@1, +v@2, S@2, ~u@3, -v@4, +w@5, ~u@6, ~w@7", counts{Live: 5}},
		{"with a GAP", "+u@1, +v@2, S@2, ~u@3, G, -v@2!, +w@5!, ~u@6!, S@6, ~w@7", counts{Live: 2}},
		{"a change is missing", "+u@1, +v@2, S@2, ~u@3, -v@4, ~u@6, ~w@7",
			counts{Live: 4, Changes: 1, Disorder: 1}}, // MODIFIED of an unknown object
		{"what happened between two runs is not due, and what is gone then is gone",
			"+u@1, +v@2, S@2, ~u@3, run, +u@6, +w@5, S@6, ~w@7", counts{Live: 2}},
		{"what happens in the second run is",
			"+u@1, +v@2, S@2, ~u@3, run, +u@6, +w@5, S@6", counts{Live: 1, Changes: 1, Folds: 1}},
		{"the second run lacks an object", "+u@1, +v@2, S@2, ~u@3, run, +w@5, S@6, ~w@7",
			counts{Live: 2, InGaps: 1, Folds: 2, Invented: 1}},
		{"a run that resumes goes on", "+u@1, +v@2, S@2, ~u@3, resumed, S@3, -v@4, +w@5, ~u@6, ~w@7", counts{Live: 5}},
		{"... and has to have all", "+u@1, +v@2, S@2, ~u@3, resumed, S@3, +w@5, ~u@6, ~w@7",
			counts{Live: 4, Changes: 1, Deletions: 1, Folds: 1}},
	} {
		history := writeFile(t, "history.jsonl", func(w io.Writer) error {
			return writeHistory(w, parseTruth(truth), nil)
		})
		f, err := checkHistory(writeTape(t, test.tape), history, 10*time.Second)
		if err != nil {
			t.Errorf("%s: %v", test.why, err)
			continue
		}
		v := f.summary.Clients[0]
		if diff := cmp.Diff(test.want, countsOf(v)); diff != "" {
			t.Errorf("%s (-want +got):\n%s%s", test.why, diff, texts(v))
		}
		if v.Program.Version != "gvrwatch v9" {
			t.Errorf("%s: the version is %q, want that of the program", test.why, v.Program.Version)
		}
	}
}

// TestCheckOfATornRecording: what a killed writer leaves is judged up to there.
func TestCheckOfATornRecording(t *testing.T) {
	history := writeFile(t, "history.jsonl", func(w io.Writer) error {
		return writeHistory(w, parseTruth("+u@1, +v@2, ~u@3"), nil)
	})
	path := writeTape(t, "+u@1, +v@2, S@2, ~u@3")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)-12], 0o600); err != nil { // in the end of the gzip member
		t.Fatal(err)
	}
	f, err := checkHistory(path, history, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if v := f.summary.Clients[0]; v.broken() > 0 || v.Live != 1 || v.Program.Unreadable > 0 {
		t.Errorf("%+v, want one live change and nothing wrong\n%s", countsOf(v), texts(v))
	}
}

// TestSelectsNames: the arguments of the tool that name single objects.
func TestSelectsNames(t *testing.T) {
	for _, test := range []struct {
		args string
		want bool
	}{
		{"", false}, {"*", false}, {"pods", false}, {"pods,services", false}, {"*.example.com", false},
		{"v1/pods", false}, {"apps/v1/Deployment", false}, {"v1.example.com/widgets", false},
		{"pods|category apps", false}, {"category apps", false},
		{"pods|web-0", true}, {"pods/web-0", true}, {"pods/web-0|services/web", true},
		{"apps/v1/Deployment/web", true}, {"deployments.apps/web", true},
	} {
		var args []string
		if test.args != "" {
			args = strings.Split(test.args, "|")
		}
		if got := selectsNames(args); got != test.want {
			t.Errorf("selectsNames(%q) = %v, want %v", args, got, test.want)
		}
	}
}

// FuzzRecorded: no text makes the reader panic, and what it reads can be judged.
func FuzzRecorded(f *testing.F) {
	for _, text := range []string{
		at(2, "+u@1") + at(2, "S@2") + at(3, "~u@3"), at(-1, "G"), at(-1, "C@3"), `{"type":"READY"}`, `{"type":"END"}`,
		`{"type":"RUN","run":{"format":1,"start":"snapshot"}}`,
		`{"type":"CLIENT","resources":["pods"],"strict":true,"rules":{"labelSelector":"a=b","byObject":false}}`,
		`{"type":"SYNCED"}`, `{"type":"DELETED","resource":"pods","uid":"u"}`, `{"type":"RESTORED"}`,
	} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		read := func(text string) (*recordFile, error) {
			r := newRecordReader("fuzz")
			for i, one := range strings.Split(text, "\n") {
				if err := r.read(i+1, []byte(one)); err != nil {
					return nil, err
				}
			}
			return r.finish()
		}
		h := newHistoryReader()
		for i, one := range strings.Split(historyText+a, "\n") {
			if strings.TrimSpace(one) != "" {
				_ = h.read(i+1, []byte(one))
			}
		}
		first, err := read(a)
		if err != nil {
			return
		}
		truth := newHistory(h.changes, h.epochs)
		finding := &finding{summary: newSummary(0)}
		finding.judge(first, witness(truth, h.span, first), h.faults, time.Second)
		if second, err := read(b); err == nil {
			both := witness(&history{epochs: []epoch{{}}}, nothing, first, second)
			finding.judge(second, both, nil, time.Second)
		}
		finding.print(io.Discard)
	})
}
