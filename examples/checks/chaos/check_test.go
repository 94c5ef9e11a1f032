package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// writeFile writes a file of a test and returns its path.
func writeFile(t *testing.T, name string, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeText(t *testing.T, name, text string) string {
	return writeFile(t, name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// checkFiles writes a truth and the reports of a client to files, and checks that these are judged as before, also if
// the client's file does not say that it is complete.
func checkFiles(t *testing.T, s subject, h *history, reports []report, want *verdict) {
	t.Helper()
	var faults []fault
	for _, f := range s.Denied {
		f.To = f.To.Add(-rightsBack)
		faults = append(faults, f)
	}
	truth := writeFile(t, "history.jsonl", func(w io.Writer) error { return writeHistory(w, h, faults) })
	client := writeFile(t, "client.jsonl", func(w io.Writer) error {
		return writeRecord(w, s, "", reports, time.Unix(2000, 0))
	})
	complete, err := os.ReadFile(client)
	if err != nil {
		t.Fatal(err)
	}
	cut := bytes.Replace(complete, []byte(`{"type":"END"`), []byte(`{"type":"ALIVE"`), 1)
	for _, path := range []string{client, writeText(t, "cut.jsonl", string(cut))} {
		got, err := checkHistory(path, truth, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(everyCount(want), everyCount(got.summary.Clients[0])); diff != "" {
			t.Errorf("%s (-judge +files):\n%s%s\n%s",
				filepath.Base(path), diff, texts(got.summary.Clients[0]), complete)
		}
	}
}

// everyCount returns all that a verdict counts.
func everyCount(v *verdict) string {
	return fmt.Sprintf("%+v of %d, %d in %d runs, GAPs %v",
		countsOf(v), v.Changes, v.Wrote.Events, v.Wrote.Runs, v.Gaps)
}

// checkRecorded checks that the files of a run are judged as its clients were.
func checkRecorded(t *testing.T, folder string, clients []*verdict) {
	t.Helper()
	for _, want := range clients {
		path := filepath.Join(folder, fileOf(want.Name))
		got, err := checkHistory(path, filepath.Join(folder, "history.jsonl"), 10*time.Second)
		if err != nil {
			t.Errorf("check the recording of %s: %v", want.Name, err)
			continue
		}
		if diff := cmp.Diff(everyCount(want), everyCount(got.summary.Clients[0])); diff != "" {
			t.Errorf("check the recording of %s (-run +check):\n%s", want.Name, diff)
		}
	}
}

// historyText is a history in which u is created and changed, v created and deleted, and w created: a second between
// all of them, from 00:00:01 on.
const historyText = `
{"type":"ADDED","resource":"pods","namespace":"a","uid":"u","resourceVersion":"1","time":"2026-01-01T00:00:01Z"}
{"type":"ADDED","resource":"pods","namespace":"a","uid":"v","resourceVersion":"2","time":"2026-01-01T00:00:02Z"}
{"type":"MODIFIED","resource":"pods","namespace":"a","uid":"u","resourceVersion":"3","time":"2026-01-01T00:00:03Z"}
{"type":"DELETED","resource":"pods","namespace":"a","uid":"v","resourceVersion":"4","time":"2026-01-01T00:00:04Z"}
{"type":"ADDED","resource":"pods","namespace":"b","uid":"w","resourceVersion":"5","time":"2026-01-01T00:00:05Z"}
{"type":"END"}
`

// at returns a line of a client, in the notation of the tests, at a second, or without a time if it is negative.
func at(second int, step string) string {
	r := parseReport(step)
	r.Resource = "pods"
	if r.UID == "w" {
		r.Namespace = "b"
	}
	if second >= 0 {
		r.At = time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC)
	}
	b, err := json.Marshal(reportLine(r))
	must(err)
	return string(b) + "\n"
}

// runCheck runs check and returns what it prints, and its exit status.
func runCheck(args ...string) (int, string) {
	var out bytes.Buffer
	status := check(args, &out, &out)
	return status, out.String()
}

// TestCheckOfARecordingThatEnds: what came late is not due, and the output says so.
func TestCheckOfARecordingThatEnds(t *testing.T) {
	begin := at(2, "+u@1") + at(2, "+v@2") + at(2, "S@2")
	alive := func(second int) string {
		return fmt.Sprintf(`{"type":"ALIVE","time":"2026-01-01T00:00:%02dZ"}`+"\n", second)
	}
	untimed := at(-1, "+u@1") + at(-1, "+v@2") + at(-1, "S@2")
	const strict = `{"type":"CLIENT","strict":true}` + "\n"
	for _, test := range []struct {
		why, client string
		status      int
		has         string
	}{
		{"it ends at the first SYNCED", begin, 0,
			"client is judged up to version 2. 3 later changes are known that it does not have, and need not"},
		{"it goes on for less than 10 s after the changes", begin + alive(12), 0, "judged up to version 2. 3 later"},
		{"it goes on for 10 s after two of three", begin + alive(14), foundSomething,
			"judged up to version 4. 1 later changes"},
		{"it goes on for longer", begin + alive(30), foundSomething, "MODIFIED of pods a/ at 3 was never reported"},
		{"the last change may come before others, if only the order of each object is kept", begin + at(6, "+w@5"), 0,
			"judged up to version 5. 2 later"},
		{"but not if versions ascend", strict + begin + at(6, "+w@5"), foundSomething,
			"DELETED of pods a/ at 4 was never"},
		{"END: everything is due", begin + `{"type":"END"}`, foundSomething, "DELETED of pods a/ at 4 was never"},
		{"within a GAP nothing is due", begin + at(6, "G") + alive(15), 0, "judged up to version 2"},
		{"... and what a list has by then is no lie", begin + at(6, "G") + at(6, "-v@2!") + alive(15), 0,
			"judged up to version 4. 2 later"},
		{"without times: nothing after the last version", untimed, 0, "client has no times"},
		{"without times: up to the last version", untimed + at(-1, "-v@4"), foundSomething,
			"MODIFIED of pods a/ at 3 was"},
		{"without times: all", untimed + at(-1, "~u@3") + at(-1, "-v@4") + at(-1, "+w@5"), 0, "client has no times"},
		{"a first list lacks what was deleted just before, and its version is unknown", at(5, "+u@3") + at(5, "S") +
			alive(12), 0, "judged up to version 3. 4 later"},
		{"READY says from when on changes are due", at(2, "+u@1") + at(2, "+v@2") + `{"type":"READY"}` + "\n" +
			alive(30), foundSomething, "DELETED of pods a/ at 4"},
		{"a SYNCED of all resources", at(2, "+u@1") + at(2, "+v@2") +
			`{"type":"SYNCED","resourceVersion":"2"}` + "\n" + alive(30), foundSomething, "DELETED of pods a/ at 4"},
	} {
		history := writeText(t, "history.jsonl", historyText)
		status, out := runCheck(writeText(t, "client.jsonl", test.client), "-history", history)
		if status != test.status || !strings.Contains(out, test.has) {
			t.Errorf("%s: status %d, want %d with %q:\n%s", test.why, status, test.status, test.has, out)
		}
	}
}

// TestCheckOfAnEndAroundARestore: what a client could not know of a restore just before the end is no fault.
func TestCheckOfAnEndAroundARestore(t *testing.T) {
	const truth = "+u@1, ~u@2, +v@3, rewind@2, +w@3, ~u@4" // restored at 500 s
	latest := subject{Name: "client", Ours: true, Coalesces: true}
	for _, test := range []struct {
		why            string
		subject        subject
		truth, reports string
		last           int64 // the time of the last line
		want           counts
	}{
		{"restored long before", others, truth, "+u@1, S@1, ~u@2, +v@3", 520,
			counts{Live: 2, InGaps: 1, Changes: 1, Folds: 1, Rewinds: 1}},
		{"restored just before", others, truth, "+u@1, S@1, ~u@2, +v@3", 505, counts{Live: 2}},
		{"a GAP is no excuse for what was missing long before it", others, truth,
			"+u@1, S@1, ~u@2, +v@3, later, G:rewound, -v@3!", 1001, counts{Live: 2, Folds: 1, InGaps: 2}},
		{"a change may have been replaced by one that is not due", latest, "+u@1, rewind@1, ~u@3, ~u@4, ~u@5",
			"+u@1, S@1", 512, counts{InGaps: 0}},
	} {
		t.Run(test.why, func(t *testing.T) {
			h := parseTruth(test.truth)
			history := writeFile(t, "history.jsonl", func(w io.Writer) error { return writeHistory(w, h, nil) })
			path := writeFile(t, "client.jsonl", func(w io.Writer) error {
				return writeRecord(w, test.subject, "", parseReports(test.reports), time.Unix(test.last, 0))
			})
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			cut := strings.Replace(string(text), `"END"`, `"ALIVE"`, 1)
			f, err := checkHistory(writeText(t, "client.jsonl", cut), history, 10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			v := f.summary.Clients[0]
			if diff := cmp.Diff(test.want, countsOf(v)); diff != "" {
				t.Errorf("(-want +got):\n%s%s\n%q", diff, texts(v), f.notes)
			}
		})
	}
}

// TestViolationsHaveWhatHappenedAroundThem: what came just before and after a missing change is shown with it, also far
// from the last SYNCED.
func TestViolationsHaveWhatHappenedAroundThem(t *testing.T) {
	var h history
	reports := parseReports("S@1")
	for n := range int64(2000) {
		c := change{
			Revision: n + 2, Kind: added, Resource: reports[0].Resource, Namespace: fmt.Sprint("ns-", n%100),
			Name: fmt.Sprint("o-", n), UID: types.UID(fmt.Sprint(n)),
		}
		h.changes = append(h.changes, c)
		if n != 1500 {
			reports = append(reports, reportOfChange(c))
		}
	}
	h.epochs = []epoch{{}}
	history := writeFile(t, "history.jsonl", func(w io.Writer) error { return writeHistory(w, &h, nil) })
	status, out := runCheck(writeReports(t, reports), "-history", history)
	for _, part := range []string{
		"ADDED of widgets.chaos.example.com ns-0/o-1500 at 1502 was never", "ns-99/o-1499 ", "ns-1/o-1501 ",
	} {
		if status != foundSomething || !strings.Contains(out, part) {
			t.Errorf("status %d, want %d and %q:\n%s", status, foundSomething, part, out)
		}
	}
}

// TestRecordsAreReadAsWritten: files lose nothing that a client reported. What a cache contains is no report of events.
func TestRecordsAreReadAsWritten(t *testing.T) {
	want := parseReports("+u@1, b/+v@2, b/S@2, S, G:lost, -u@1!?, run, b/G:rewound, C@7, ~v@9, -v@10")
	for i := range want {
		want[i].At = want[i].At.UTC()
		if want[i].Kind == committed {
			want[i].Worker = want[i].Namespace
		}
	}
	want[1].Worker = "b" // of a list of the namespace
	want[4].From = "2"
	s := subject{
		Name: "client", Chained: true, Checkpoint: true, Coalesces: true, Limited: true, Ours: true, ByObject: true,
		Scope: scope{Resources: []string{want[0].Resource}, Namespaces: []string{"a", "b"}},
	}
	until := want[len(want)-1].At
	got, err := readRecord(writeFile(t, "x.jsonl", func(w io.Writer) error {
		return writeRecord(w, s, "v1", append(want, report{Kind: contents, Has: map[types.UID]string{"u": "1"}}), until)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.reports); diff != "" {
		t.Errorf("reports (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(s, got.subject); diff != "" {
		t.Errorf("subject (-written +read):\n%s", diff)
	}
	rest := []any{got.timed, got.ended.Equal(until), got.complete, got.counts.Version, got.counts.Unreadable}
	if diff := cmp.Diff([]any{true, true, true, "v1", 0}, rest); diff != "" {
		t.Errorf("the rest (-want +got):\n%s", diff)
	}
}

// TestCheckRefuses: what can't be judged is refused by the line, and what can't be read is counted.
func TestCheckRefuses(t *testing.T) {
	good := at(2, "+u@1") + at(2, "+v@2") + at(2, "S@2")
	header := func(more string) string {
		return `{"type":"RUN","time":"2026-01-01T00:00:01Z","run":{"format":1,` + more + `}}` + "\n"
	}
	for _, test := range []struct {
		why, client string
		status      int
		has         string
	}{
		{"nothing of ours", "hello\n{}\n", cannotJudge, "no line is of a recording: must have lines of docs/judge.md"},
		{"an empty file", "", cannotJudge, "no line is of a recording"},
		{"no SYNCED", at(2, "+u@1"), cannotJudge, "no SYNCED says from when on changes are due"},
		{"a version that is no number", good + at(3, "~u@x7"), cannotJudge, `line 4: invalid resourceVersion "x7"`},
		{"a version beyond int64", good + at(3, "~u@9223372036854775808"), cannotJudge,
			`line 4: invalid resourceVersion "9223372036854775808": must be a number below 2^63`},
		{"a negative version", at(2, "S@-5"), cannotJudge, `line 1: invalid resourceVersion "-5"`},
		{"a GAP from such a version", good + `{"type":"GAP","resource":"pods","gap":{"from":"1e3"}}`, cannotJudge,
			`line 4: invalid resourceVersion "1e3"`},
		{"no version", good + at(3, "~u"), cannotJudge, "line 4: MODIFIED without a resourceVersion"},
		{"broken lines are counted", good + "{\n[1]\n\"\\u0000\n" + `{"type":"ADDED","resource":"pods"}` + "\n", 0,
			"client wrote 4 lines that the judge can't read. The first: line 4: invalid line"},
		{"a type that is no text", good + `{"type":7}`, 0, "wrote 1 lines"},
		{"a broken time", good + `{"type":"GAP","resource":"pods","time":"noon"}` + "\n", 0, "invalid time"},
		{"a last line that is cut off", good + `{"type":"GA`, 0, "| client "},
		{"a line of more than 16 MiB", good + `{"type":"` + strings.Repeat("x", maxLine) + "\"}\n", 0,
			"it has more than 16 MiB, the limit"},
		{"what others write is ignored", good + `{"type":"BOOKMARK","object":{}}` + "\n{}\n", 0, "| client "},
		{"a recording without a snapshot", header(`"start":"later"`) + good, cannotJudge, "line 1: it was recorded"},
		{"a recording of fields", header(`"start":"snapshot","selection":{"fieldSelector":"a=b"}`) + good, cannotJudge,
			"--field-selector"},
		{"a recording of one object", header(`"start":"snapshot","selection":{"types":["pod","web-0"]}`) + good,
			cannotJudge, "names of objects"},
		{"a recording of two selections", header(`"start":"snapshot"`) + good +
			header(`"start":"snapshot","selection":{"namespaces":["a"]}`), cannotJudge, "line 5: its runs select"},
		{"damaged gzip", "\x1f\x8bxyz", cannotJudge, "gzip"},
	} {
		history := writeText(t, "history.jsonl", historyText)
		status, out := runCheck("-history", history, writeText(t, "client.jsonl", test.client))
		if status != test.status || !strings.Contains(out, test.has) {
			t.Errorf("%s: status %d, want %d with %q:\n%.2000s", test.why, status, test.status, test.has, out)
		}
	}
}

// TestCheckRefusesArguments: a history must be whole, and the arguments must be complete.
func TestCheckRefusesArguments(t *testing.T) {
	client := writeText(t, "client.jsonl", at(2, "+u@1")+at(2, "S@2"))
	untimed := writeText(t, "client.jsonl", at(-1, "+u@1")+at(-1, "S@2"))
	history := func(more string) string { return writeText(t, "history.jsonl", historyText+more) }
	const restored = `{"type":"RESTORED","resourceVersion":"2","time":"2026-01-01T00:00:06Z"}` + "\n"
	for _, test := range []struct {
		why  string
		args []string
		has  string
	}{
		{"no history", []string{client}, "must be FILE, and -history HISTORY or -beside OTHER"},
		{"no file", []string{"-history", history("")}, "must be FILE"},
		{"both", []string{client, "-history", client, "-beside", client}, "must be FILE"},
		{"a flag that is none", []string{client, "-x"}, "flag provided but not defined"},
		{"a broken history", []string{client, "-history", history("{\n")}, "line 8: invalid line"},
		{"a history that is none", []string{client, "-history", client}, "lines can't be read, and it must be"},
		{"no such file", []string{client, "-history", client + "x"}, "no such file"},
		{"a restore, and no times", []string{untimed, "-history", history(restored)}, "must have them"},
		{"a restore without a time", []string{client, "-history", history(`{"type":"RESTORED","resourceVersion":"2"}`)},
			"a RESTORED must have a time"},
		{"a resource that the history does not have", []string{
			writeText(t, "client.jsonl", strings.ReplaceAll(at(2, "+u@1")+at(2, "S@2"), "pods", "nodes")),
			"-history", history(`{"type":"END","resourceVersion":"5"}`),
		}, "has nothing of nodes"},
		{"a negative time", []string{client, "-history", history(""), "-late", "-1s"}, "invalid -late"},
	} {
		if status, out := runCheck(test.args...); status != cannotJudge || !strings.Contains(out, test.has) {
			t.Errorf("%s: status %d, want %d with %q:\n%s", test.why, status, cannotJudge, test.has, out)
		}
	}
}
