package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// others is a client that claims nothing.
var others = subject{Name: "client", ByObject: true}

func writeReports(t *testing.T, reports []report) string {
	return writeFile(t, "client.jsonl", func(w io.Writer) error {
		return writeRecord(w, others, "", reports, time.Unix(2000, 0))
	})
}

// TestBeside: what one recording has and the other lacks is found, and nothing else.
func TestBeside(t *testing.T) {
	const plain = "+u@1, +v@2, S@2, ~u@3, -v@4, +w@5, ~u@6"
	for _, test := range []struct {
		why          string
		first, other string
		want         [2]counts
	}{
		{"the same", plain, plain, [2]counts{{Live: 4}, {Live: 4}}},
		{"one lacks a change", plain, "+u@1, +v@2, S@2, -v@4, +w@5, ~u@6", [2]counts{{Live: 4}, {Live: 3, Changes: 1}}},
		{"each lacks another one", "+u@1, +v@2, S@2, -v@4, +w@5, ~u@6", "+u@1, +v@2, S@2, ~u@3, -v@4, ~u@6",
			[2]counts{{Live: 3, Changes: 1}, {Live: 3, Changes: 1, Folds: 1}}},
		{"one lacks a deletion", plain, "+u@1, +v@2, S@2, ~u@3, +w@5, ~u@6",
			[2]counts{{Live: 4}, {Live: 3, Changes: 1, Deletions: 1, Folds: 1}}},
		{"one is in a GAP", plain, "+u@1, +v@2, S@2, G, -v@2!, +w@5!, ~u@6!, S@6", [2]counts{{Live: 4}, {InGaps: 1}}},
		{"both have found out the deletion, in GAPs of different versions",
			"+u@1, +v@2, S@2, G, -v@2!, ~u@6!, S@6, ~u@9",
			"+u@1, +v@2, S@2, ~u@3, G, -v@2!, S@5, ~u@6, ~u@9",
			[2]counts{{Live: 1, InGaps: 1}, {Live: 3}}},
		{"one has found out the deletion, and the other lacks it", "+u@1, +v@2, S@2, G, -v@2!, S@5, ~u@6",
			"+u@1, +v@2, S@2, ~u@6", [2]counts{{Live: 1}, {Live: 1, Changes: 1, Deletions: 1, Folds: 1}}},
		{"a deletion that is found out without a GAP", "+u@1, +v@2, S@2, -v@2!, ~u@6", plain[:len(plain)-len(", ~u@6")],
			[2]counts{{Live: 1, Changes: 2, Folds: 1}, {Live: 3, Changes: 1, Folds: 1}}},
		{"an object that is there later was not deleted", "+u@1, +v@2, S@2, G, -v@2!, S@4, ~u@6",
			"+u@1, +v@2, S@2, ~v@5, ~u@6",
			[2]counts{{Live: 1, Changes: 1, Invented: 1, Folds: 2}, {Live: 2}}},
		{"one begins later: what it can't know is no fault",
			"+u@1, +v@2, S@2, ~u@3, -v@4, +w@5, ~u@6", "+u@3, +w@5, S@5, ~u@6",
			[2]counts{{Live: 4}, {Live: 1}}},
		{"one begins later, and shows what the other lacks", "+u@1, +v@2, S@2, -v@4, ~u@6", "+u@3, +w@5, S@5, ~u@6",
			[2]counts{{Live: 2, Changes: 2, Folds: 1}, {Live: 1}}},
		{"what the first list of one lacks is gone", "+u@1, +v@2, S@2, ~u@3, +w@5, ~u@6", "+u@3, +w@5, S@5, ~u@6",
			[2]counts{{Live: 3, Changes: 1, Deletions: 1, Folds: 1}, {Live: 1}}},
		{"what the first list of one lacks is there later, so the list is wrong",
			"+u@1, +v@2, S@2, ~u@3, ~v@7", "+u@3, S@5, ~v@7",
			[2]counts{{Live: 2}, {Live: 1, Folds: 1}}},
		{"what a list of one lacks is gone, also if the other says SYNCED and has it",
			"+u@1, +v@2, S@2, ~u@4, S@4, G, -v@2!, S@8",
			"+u@1, +v@2, S@2, G, ~u@4!, -v@2!, S@4", [2]counts{{Live: 1, Folds: 1}, {}}},
		{"one never knew what came and went within its GAP", "+u@1, S@1, +x@3, ~u@4, G, -x@3!, S@9, ~u@10",
			"+u@1, S@1, G, ~u@4!, S@6, ~u@10", [2]counts{{Live: 3}, {Live: 1, InGaps: 2}}},
		{"a first list without a version", plain, "+u@3, S, +w@5, ~u@6", [2]counts{{Live: 4}, {Live: 2}}},
	} {
		t.Run(test.why, func(t *testing.T) {
			f, err := checkBeside(writeReports(t, parseReports(test.first)), writeReports(t, parseReports(test.other)),
				10*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			a, b := f.summary.Clients[0], f.summary.Clients[1]
			if diff := cmp.Diff(test.want, [2]counts{countsOf(a), countsOf(b)}); diff != "" {
				t.Errorf("%q beside %q (-want +got):\n%s%s\n%s", test.first, test.other, diff, texts(a), texts(b))
			}
		})
	}
}

// randomHistory returns changes of objects in two namespaces, and the reports of a client that has all of them, from a
// list after some of them on. Reports from an index on are those of the watch.
func randomHistory(r *rand.Rand) (h *history, reports []report, watch int) {
	var changes []change
	exists := map[types.UID]change{}
	began := time.Unix(0, 0)
	length, listed := 60, 5+r.IntN(20)
	revision := int64(1)
	for i := range length {
		revision += 1 + r.Int64N(3)
		c := change{
			Revision: revision, At: began.Add(time.Duration(i) * time.Second), Kind: added, Resource: "pods",
			Namespace: []string{"a", "b"}[r.IntN(2)], Name: fmt.Sprint("o-", i), UID: types.UID(fmt.Sprint(i)),
		}
		for _, before := range exists { // any
			if r.IntN(4) > 0 {
				c.Namespace, c.Name, c.UID, c.Kind = before.Namespace, before.Name, before.UID, modified
				if r.IntN(4) == 0 {
					c.Kind = deleted
				}
			}
			break
		}
		if exists[c.UID] = c; c.Kind == deleted {
			delete(exists, c.UID)
		}
		changes = append(changes, c)
		if i+1 == listed {
			for _, one := range exists {
				one.Kind = added
				reports = append(reports, reportOfChange(one))
			}
			watch = len(reports) + 1
			reports = append(reports, report{
				At: c.At, Run: 1, Kind: synced, Resource: "pods", ResourceVersion: fmt.Sprint(revision), Acked: true,
			})
		} else if i+1 > listed {
			reports = append(reports, reportOfChange(c))
		}
	}
	return newHistory(changes, []epoch{{}}), reports, watch
}

func reportOfChange(c change) report {
	return report{
		At: c.At.Add(time.Millisecond), Run: 1, Kind: c.Kind, Resource: c.Resource, Namespace: c.Namespace,
		Name: c.Name, UID: c.UID, ResourceVersion: fmt.Sprint(c.Revision), Acked: true,
	}
}

// TestCheckFindsWhatIsMissing: exactly what a client has left out is found, beside the history and beside a recording
// that has everything.
func TestCheckFindsWhatIsMissing(t *testing.T) {
	for seed := range seedtest.Default(100).All(t) {
		r := rand.New(rand.NewPCG(seed, 0))
		h, reports, watch := randomHistory(r)
		lacks := slices.Clone(reports)
		want := counts{Changes: r.IntN(6)}
		for range want.Changes {
			i := watch + r.IntN(len(lacks)-watch)
			if lacks[i].Kind == deleted {
				want.Deletions++
			}
			lacks = slices.Delete(lacks, i, i+1)
		}
		history := writeFile(t, "history.jsonl", func(w io.Writer) error { return writeHistory(w, h, nil) })
		path, whole := writeReports(t, lacks), writeReports(t, reports)
		beside, err := checkBeside(path, whole, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := checkHistory(path, history, 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []*verdict{alone.summary.Clients[0], beside.summary.Clients[0]} {
			got := counts{
				Changes: v.ChangesMissed, Deletions: v.DeletionsMissed, Invented: v.Invented, Repeats: v.Repeats,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: what is missing (-left out +found):\n%s%s", seed, diff, texts(v))
			}
		}
		if v := beside.summary.Clients[1]; v.broken() > 0 {
			t.Fatalf("seed %d: the recording that has everything is blamed:\n%s", seed, texts(v))
		}
	}
}

// TestBesideOfANamespace: what has no namespace is in the selection of the tool, whatever its namespaces.
func TestBesideOfANamespace(t *testing.T) {
	const run = `{"type":"RUN","run":{"format":1,"start":"snapshot","selection":{"namespaces":["a"]}}}` + "\n"
	object := func(kind, namespace, uid string, version int) string {
		return fmt.Sprintf(`{"type":%q,"resource":"pods","object":{"metadata":{"namespace":%q,"name":"x","uid":%q,`+
			`"resourceVersion":"%d"}}}`+"\n", kind, namespace, uid, version)
	}
	all := object("ADDED", "", "u", 1) + at(-1, "S@2") + object("MODIFIED", "", "u", 3) + object("ADDED", "b", "w", 4) +
		object("ADDED", "a", "v", 5)
	for _, test := range []struct{ why, client string }{
		{"as the tool has recorded it", run + strings.ReplaceAll(all, object("ADDED", "b", "w", 4), "")},
		{"as its JSON has it", `{"type":"CLIENT","rules":{"namespaces":["a"]}}` + "\n" +
			strings.ReplaceAll(all, object("ADDED", "b", "w", 4), "")},
	} {
		status, out := runCheck(writeText(t, "a.jsonl", test.client), "-beside", writeText(t, "all.jsonl", all))
		if status != 0 {
			t.Errorf("%s: status %d, want 0:\n%s", test.why, status, out)
		}
	}
}

// TestCheckRefusesWhatIsApart: recordings of other times or clusters are refused, and not judged right or wrong.
func TestCheckRefusesWhatIsApart(t *testing.T) {
	timed := func(second int, text string) string {
		return fmt.Sprintf(`{"type":%q,"time":"2026-01-01T00:00:%02dZ"}`+"\n", text, second)
	}
	history := func(from, to int, steps string) string { return writeSpan(t, from, to, steps) }
	run := func(cluster string) string {
		return `{"type":"RUN","run":{"format":1,"start":"snapshot","cluster":"` + cluster + `"}}` + "\n"
	}
	good := at(2, "+u@1") + at(2, "S@2")
	for _, test := range []struct {
		why, client, history, other string
		status                      int
		has                         string
	}{
		{"it begins after the history has ended", at(9, "+w@9") + at(9, "S@9"), history(1, 5, "+u@2, +v@3"), "",
			cannotJudge, "they have no version in common"},
		{"it ended before the history began", good, history(50, 60, "+u@1, +v@55"), "", cannotJudge,
			"no version in common"},
		{"it has the versions of another cluster", good + at(3, "+x@3"), history(1, 9, "+v@3, +w@4"), "", cannotJudge,
			"none of the objects of versions after 2, up to 4, are the same"},
		{"it went on while the history began, but reported nothing", at(2, "S@2") + timed(40, "ALIVE"),
			history(4, 9, "+v@5"), "", foundSomething, "ADDED of pods a/v at 5 was never reported"},
		{"it ends before the other begins", good, "", at(9, "+w@9") + at(9, "S@9"), cannotJudge,
			"no version in common"},
		{"the versions of two clusters", good + at(3, "+x@3"), "", at(1, "+v@1") + at(2, "S@2") + at(3, "~v@3"),
			cannotJudge, "none of the objects of versions after 2, up to 3, are the same"},
		{"one has nothing that the other has", good + at(3, "+x@3"), "", at(1, "+v@1") + at(2, "S@2") + at(3, "S@3"),
			foundSomething, "ADDED of pods a/x at 3 was never reported"},
		{"the tool says that it was another cluster", run("one") + good, "", run("two") + good, cannotJudge,
			"they are of two clusters: one and two"},
		{"it went on while the other began, but reported nothing", at(2, "S@2") + timed(40, "ALIVE"), "",
			at(4, "S@4") + at(5, "+v@5"), foundSomething, "ADDED of pods a/v at 5 was never reported"},
	} {
		args := []string{writeText(t, "client.jsonl", test.client), "-history", test.history}
		if test.history == "" {
			args[1], args[2] = "-beside", writeText(t, "other.jsonl", test.other)
		}
		status, out := runCheck(args...)
		if status != test.status || !strings.Contains(out, test.has) {
			t.Errorf("%s: status %d, want %d with %q:\n%s", test.why, status, test.status, test.has, out)
		}
	}
}

// writeSpan writes a history of pods in the notation of the tests that is known from one version to another.
func writeSpan(t *testing.T, from, to int, steps string) string {
	var lines strings.Builder
	fmt.Fprintf(&lines, `{"type":"HISTORY","resourceVersion":"%d"}`+"\n", from)
	for i, c := range parseTruth(steps).changes {
		c.Resource, c.At = "pods", time.Date(2026, 1, 1, 0, 0, from+i, 0, time.UTC)
		b, err := json.Marshal(changeLine(c))
		must(err)
		lines.Write(append(b, '\n'))
	}
	fmt.Fprintf(&lines, `{"type":"END","resourceVersion":"%d"}`+"\n", to)
	return writeText(t, "history.jsonl", lines.String())
}

// TestCheckWithinAndAroundAHistory: what was recorded is believed where the history knows nothing, and only there.
func TestCheckWithinAndAroundAHistory(t *testing.T) {
	for _, test := range []struct {
		why     string
		history string
		to      int
		reports string
		want    counts
	}{
		{"a deletion that a list seems to show, of what exists", "+u@1, +v@2, ~u@5, ~u@8", 9,
			"+u@1, +v@2, S@2, ~u@5, G, -v@2!, S@6, ~u@8", counts{Live: 2, Invented: 1, Folds: 2}},
		{"what was gone after the history, and never reported", "+u@1, +v@2, ~u@5, +x@6", 7,
			"+u@1, +v@2, S@2, ~u@5, G, S@20, ~u@21", counts{Live: 2, InGaps: 2}},
	} {
		reports := parseReports(test.reports)
		for i := range reports {
			reports[i].Resource, reports[i].At = "pods", time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
		}
		f, err := checkHistory(writeReports(t, reports), writeSpan(t, 0, test.to, test.history), 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		v := f.summary.Clients[0]
		if diff := cmp.Diff(test.want, countsOf(v)); diff != "" {
			t.Errorf("%s (-want +got):\n%s%s", test.why, diff, texts(v))
		}
	}
}

// TestCheckBlamesNobody: a client that has everything, but for a GAP, is right beside any part of the history.
func TestCheckBlamesNobody(t *testing.T) {
	for seed := range seedtest.Default(200).All(t) {
		r := rand.New(rand.NewPCG(seed, 1))
		h, reports, watch := randomHistory(r)
		begin := watch + r.IntN(len(reports)-watch)
		reports = withGap(reports, begin, begin+r.IntN(len(reports)-begin))
		n := r.IntN(len(h.changes))
		from, to := h.changes[n].Revision, h.changes[n+r.IntN(len(h.changes)-n)].Revision
		history := writeFile(t, "history.jsonl", func(w io.Writer) error { return writePart(w, h, from, to) })
		f, err := checkHistory(writeReports(t, reports), history, 10*time.Second)
		if err != nil {
			if !strings.Contains(err.Error(), "in common") && !strings.Contains(err.Error(), "it has no change") {
				t.Fatalf("seed %d: %v", seed, err)
			}
			continue
		}
		if v := f.summary.Clients[0]; v.broken() > 0 {
			t.Fatalf("seed %d: %d to %d: a client that has everything is blamed:\n%s", seed, from, to, texts(v))
		}
	}
}

// TestBesideBlamesNobody: of two clients that have everything, but for a GAP of each, none is blamed.
func TestBesideBlamesNobody(t *testing.T) {
	for seed := range seedtest.Default(200).All(t) {
		r := rand.New(rand.NewPCG(seed, 2))
		_, reports, watch := randomHistory(r)
		var paths []string
		for range 2 {
			begin := watch + r.IntN(len(reports)-watch)
			paths = append(paths, writeReports(t, withGap(reports, begin, begin+r.IntN(len(reports)-begin))))
		}
		f, err := checkBeside(paths[0], paths[1], 10*time.Second)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, v := range f.summary.Clients {
			if v.broken() > 0 {
				t.Fatalf("seed %d: %s has everything, and is blamed:\n%s", seed, v.Name, texts(v))
			}
		}
	}
}

// withGap replaces reports by a GAP, what a list after them shows, and SYNCED.
func withGap(reports []report, from, to int) []report {
	before, after := map[types.UID]report{}, map[types.UID]report{}
	for i, one := range reports[:to] {
		if one.UID == "" {
			continue
		}
		if after[one.UID] = one; one.Kind == deleted {
			delete(after, one.UID)
		}
		if i < from {
			before = maps.Clone(after)
		}
	}
	mark := reports[to-1]
	mark.UID, mark.Name, mark.Namespace, mark.Kind = "", "", "", gap
	out := append(slices.Clone(reports[:from]), mark)
	for uid, one := range before {
		if _, found := after[uid]; !found {
			one.At, one.Kind, one.Inferred = mark.At, deleted, true
			out = append(out, one)
		}
	}
	for uid, one := range after {
		if was, found := before[uid]; !found || was.ResourceVersion != one.ResourceVersion {
			one.At, one.Inferred = mark.At, true
			if one.Kind = added; found {
				one.Kind = modified
			}
			out = append(out, one)
		}
	}
	mark.Kind = synced
	return append(append(out, mark), reports[to:]...)
}

// writePart writes what a history has from one version to another.
func writePart(w io.Writer, h *history, from, to int64) error {
	lines := []historyLine{{Type: lineHistory, ResourceVersion: fmt.Sprint(from)}}
	exists := map[types.UID]change{}
	for _, c := range h.changes {
		if c.Revision <= from {
			if exists[c.UID] = c; c.Kind == deleted {
				delete(exists, c.UID)
			}
		}
	}
	for _, c := range exists {
		c.Kind, c.At = added, time.Time{}
		lines = append(lines, changeLine(c))
	}
	for _, c := range h.changes {
		if from < c.Revision && c.Revision <= to {
			lines = append(lines, changeLine(c))
		}
	}
	var errs []error
	for _, one := range append(lines, historyLine{Type: lineEnd, ResourceVersion: fmt.Sprint(to)}) {
		errs = append(errs, json.NewEncoder(w).Encode(one))
	}
	return errors.Join(errs...)
}
