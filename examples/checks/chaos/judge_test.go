package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// The notation of the tests: +u@5 is ADDED of the object with the uid u at version 5, ~u@5 MODIFIED, -u@5 DELETED.
// b/+u@5 is in the namespace b, and all others are in a. In the truth, "+u@5 in" has the label of the selector, and
// rewind@5 begins an epoch with a copy made at 5. In reports, S@5 is SYNCED and G GAP (G:lost with lost history,
// G:rewound), ! means inferred, ? not acked; "run" begins another run, C@5 says what was committed. What follows
// "later" was reported after the rewind, and after what follows "later" in the truth. All else was reported before
// that.

func parseTruth(text string) *history {
	var changes []change
	epochs := []epoch{{}}
	at := time.Unix(0, 0)
	for step := range strings.SplitSeq(text, ", ") {
		at = at.Add(time.Second)
		if step == "later" {
			at = time.Unix(800, 0)
			continue
		}
		if cut, ok := strings.CutPrefix(step, "rewind@"); ok {
			at = time.Unix(500, 0)
			epochs = append(epochs, epoch{After: revision(cut), At: at})
			continue
		}
		step, in := strings.CutSuffix(step, " in")
		r := parseReport(step)
		c := change{
			Epoch: len(epochs) - 1, Revision: revision(r.ResourceVersion), At: at, Kind: r.Kind, Resource: r.Resource,
			Namespace: r.Namespace, Name: r.Name, UID: r.UID,
		}
		if in {
			c.Labels = map[string]string{"chaos": "in"}
		}
		changes = append(changes, c)
	}
	return newHistory(changes, epochs)
}

func parseReports(text string) (reports []report) {
	run := 1
	at := time.Unix(100, 0)
	for step := range strings.SplitSeq(text, ", ") {
		switch step {
		case "run":
			run++
			continue
		case "later":
			at = time.Unix(1000, 0)
			continue
		}
		at = at.Add(time.Second)
		r := parseReport(step)
		r.Run, r.At = run, at
		reports = append(reports, r)
	}
	return reports
}

func parseReport(step string) report {
	r := report{Resource: "widgets." + "chaos.example.com", Acked: true}
	step, unacked := strings.CutSuffix(step, "?")
	r.Acked = !unacked
	step, r.Inferred = strings.CutSuffix(step, "!")
	namespace, step, found := strings.Cut(step, "/")
	if !found {
		namespace, step = "", namespace
	}
	r.Worker = namespace
	step, r.ResourceVersion, _ = strings.Cut(step, "@")
	if kind, ok := map[string]Kind{"S": synced, "C": committed}[step]; ok {
		r.Kind, r.Namespace = kind, namespace
		return r
	}
	if reason, ok := strings.CutPrefix(step, "G"); ok {
		r.Kind, r.Namespace = gap, namespace
		r.HistoryLost, r.Reason = reason == ":lost", strings.TrimPrefix(reason, ":")
		return r
	}
	if r.Namespace = namespace; namespace == "" {
		r.Namespace = "a"
	}
	r.Worker = ""
	r.Kind = map[byte]Kind{'+': added, '~': modified, '-': deleted}[step[0]]
	r.UID, r.Name = types.UID(step[1:]), step[1:]
	return r
}

// counts is what a test expects of a verdict.
type counts struct{ Deletions, Changes, InGaps, Live, Repeats, Disorder, Invented, Folds, Rewinds int }

func countsOf(v *verdict) counts {
	return counts{
		v.DeletionsMissed, v.ChangesMissed, v.ChangesInGaps, v.Live, v.Repeats, v.OrderViolations, v.Invented,
		v.FoldsWrong, v.RewindsUnseen,
	}
}

func TestJudge(t *testing.T) {
	const plain = "+u@1, +v@2, ~u@3, -v@4, +w@5, ~u@6"
	ours := subject{Name: "test", Ours: true, Chained: true}
	limited := subject{Name: "test", Ours: true, Limited: true, Denied: []fault{
		{Name: "rights", From: time.Unix(104, 0), To: time.Unix(105, 0)}, // the fourth and fifth report
	}}
	killed := subject{Name: "test", Ours: true, Checkpoint: true}
	selecting := subject{Name: "test", Ours: true, Scope: scope{Selects: chaosIn}}
	others := subject{Name: "test", ByObject: true}
	for _, test := range []struct {
		why     string
		subject subject
		truth   string
		reports string
		want    counts
	}{
		{"everything", ours, plain, "+u@1, +v@2, S@2, ~u@3, -v@4, +w@5, ~u@6", counts{Live: 4}},
		{"a change is missing", ours, plain, "+u@1, +v@2, S@2, -v@4, +w@5, ~u@6", counts{Changes: 1, Live: 3}},
		{"a deletion is missing, and so v is there at the end", ours, plain,
			"+u@1, +v@2, S@2, ~u@3, +w@5, ~u@6", counts{Deletions: 1, Changes: 1, Live: 3, Folds: 1}},
		{"the last change is missing", ours, plain, "+u@1, +v@2, S@2, ~u@3, -v@4, +w@5",
			counts{Changes: 1, Live: 3, Folds: 1}},
		{"within a gap only the differences are due", ours, plain,
			"+u@1, +v@2, S@2, G, -v@2!, +w@5!, ~u@6!, S@6", counts{InGaps: 1}},
		{"a difference is missing", ours, plain, "+u@1, +v@2, S@2, G, +w@5!, ~u@6!, S@6",
			counts{Deletions: 1, InGaps: 2, Folds: 2}},
		{"a SYNCED without a GAP covers what is before it", ours, plain,
			"+u@1, +v@2, S@2, -v@2!, +w@5!, ~u@6!, S@6", counts{Changes: 1}},
		{"what a GAP follows is due up to the last event only", ours, plain,
			"+u@1, +v@2, S@2, ~u@3, G, -v@3!, +w@5!, ~u@6!, S@6", counts{Live: 1}},
		{"twice", ours, plain, "+u@1, +v@2, S@2, ~u@3, ~u@3, -v@4, +w@5, ~u@6",
			counts{Live: 4, Repeats: 1, Disorder: 1}},
		{"twice in two runs that are chained", ours, plain, "+u@1, +v@2, S@2, ~u@3, run, S@2, ~u@3, -v@4, +w@5, ~u@6",
			counts{Live: 4, Repeats: 1, Folds: 1}},
		{"in the wrong order", ours, plain, "+u@1, +v@2, S@2, -v@4, ~u@3, +w@5, ~u@6", counts{Live: 4, Disorder: 1}},
		{"ADDED of a known object", ours, plain,
			"+u@1, +v@2, S@2, +u@3, -v@4, +w@5, ~u@6", counts{Live: 4, Disorder: 1}},
		{"an object that never was", ours, plain, "+u@1, +v@2, S@2, ~u@3, +x@3, -v@4, +w@5, ~u@6",
			counts{Live: 4, Invented: 1, Folds: 1}},
		{"a version that never was", ours, plain, "+u@1, +v@2, S@2, ~u@3, -v@4, ~u@4, +w@5, ~u@6",
			counts{Live: 4, Invented: 1}},
		{"a deletion that never was", ours, plain, "+u@1, +v@2, S@2, ~u@3, -u@3!, -v@4, +w@5, ~u@6",
			counts{Live: 4, Invented: 1, Disorder: 1}},
		{"a deletion that came too early", ours, "+u@1, ~u@3, ~u@5, -u@7", "+u@1, S@2, ~u@3, -u@3!, ~u@5, -u@7",
			counts{Live: 3, Invented: 1, Disorder: 1}},
		{"a wrong fold at SYNCED that is right later", ours, plain,
			"+u@1, S@2, +v@2!, ~u@3, -v@4, +w@5, ~u@6", counts{Live: 4, Folds: 1}},
		{"the version of a SYNCED is found", ours, plain, "+u@1, +v@2, S, ~u@3, -v@4, +w@5, ~u@6", counts{Live: 4}},
		{"a SYNCED whose version is nowhere", ours, plain, "+v@2, S, -v@4!, +w@5, ~u@6",
			counts{Live: 2, Disorder: 1, Folds: 1}},

		{"a killed process repeats what was not committed", killed, plain,
			"+u@1, +v@2, S@2, ~u@3, -v@4, C@2, run, S@2, ~u@3, -v@4, +w@5, ~u@6", counts{Live: 4}},
		{"a killed process repeats what was committed", killed, plain,
			"+u@1, +v@2, S@2, ~u@3, -v@4, C@3, run, S@2, ~u@3, -v@4, +w@5, ~u@6", counts{Live: 4, Repeats: 1}},
		{"a killed process goes on after a newer snapshot without a GAP: v was never reported", killed,
			"+u@1, ~u@2, +v@3, -v@4, ~u@5, ~u@6", "+u@1, S@1, ~u@2, run, ~u@6!, S@6",
			counts{Changes: 3, Deletions: 1, Live: 1}},
		{"it says so with a GAP", killed, "+u@1, ~u@2, +v@3, -v@4, ~u@5, ~u@6", "+u@1, S@1, ~u@2, run, G, ~u@6!, S@6",
			counts{InGaps: 3, Live: 1}},
		{"its SYNCED was not acked, so nothing is due from there", killed, "+u@1, +v@2, -v@3, ~u@4",
			"+u@1, S@1?, run, ~u@4!, S@4", counts{InGaps: 2}},
		{"its GAP was not acked, so it comes again", killed, "+u@1, ~u@2, ~u@3, ~u@4",
			"+u@1, S@1, G?, run, ~u@4!, S@4", counts{Changes: 2}},

		{"a run that repeats a GAP knows deletions that come after its first SYNCED", killed,
			"+u@1, +v@2, ~v@3, -v@4, ~u@5", "+u@1, +v@2, S@2, C@2, G, -v@2!, S@4, run, S@2, G, ~u@5!, S@5",
			counts{InGaps: 1}},

		{"an object that leaves and enters the selector", selecting,
			"+u@1 in, +v@2, ~u@3, ~v@4 in, ~u@5 in, -v@6 in", "+u@1, S@2, -u@3, +v@4, +u@5, -v@6", counts{Live: 4}},
		{"leaving the selector is not reported", selecting,
			"+u@1 in, +v@2, ~u@3, ~v@4 in", "+u@1, S@2, +v@4", counts{Changes: 1, Deletions: 1, Live: 1, Folds: 1}},
		{"a change outside of the selector is reported", selecting,
			"+u@1 in, +v@2, ~v@3", "+u@1, S@2, +v@3", counts{Invented: 1, Folds: 1}},

		{"etcd is restored, and a GAP says so", ours, "+u@1, ~u@2, +v@3, rewind@2, +w@3, ~u@4",
			"+u@1, S@1, ~u@2, +v@3, later, G:rewound, -v@3!, ~u@4!, +w@3!, S@4", counts{Live: 2}},
		{"an object of the old epoch remains", ours, "+u@1, ~u@2, +v@3, rewind@2, +w@3, ~u@4",
			"+u@1, S@1, ~u@2, +v@3, later, G:rewound, ~u@4!, +w@3!, S@4", counts{Live: 2, Deletions: 1, Folds: 2}},
		{"etcd is restored, and is past the client's version when the client looks", ours,
			"+u@1, ~u@2, +v@3, rewind@2, +w@3, ~u@4, ~w@5", "+u@1, S@1, ~u@2, +v@3, later, ~u@4, ~w@5",
			counts{Live: 4, Rewinds: 1, InGaps: 1}},
		{"after that, everything is due", ours, "+u@1, ~u@2, +v@3, rewind@2, +w@3, ~u@4, ~u@5, ~u@6",
			"+u@1, S@1, ~u@2, +v@3, later, ~u@4, ~u@6", counts{Live: 4, Rewinds: 1, Changes: 1, InGaps: 1}},

		{"without rights, nothing is due until the next SYNCED", limited, "+u@1, +v@2, ~u@3, ~u@4, ~u@5, ~u@6, ~u@7",
			"+u@1, +v@2, S@2, ~u@3, ~u@5, S@5, ~u@7", counts{Changes: 1, InGaps: 1, Live: 3}},
		{"but deletions are", limited, "+u@1, +v@2, ~u@3, -v@4, ~u@5",
			"+u@1, +v@2, S@2, ~u@3, ~u@5", counts{Deletions: 1, InGaps: 1, Live: 2, Folds: 1}},
		{"a restore that could not be seen while rights were missing", limited,
			"+u@1, ~u@2, +v@3, rewind@2, +w@3, ~u@4, ~w@5", "+u@1, S@1, ~u@2, +v@3, later, ~u@4, ~w@5",
			counts{InGaps: 1, Live: 4, Rewinds: 1}},

		{"namespaces of their own", ours, "+u@1, b/+v@2, ~u@3, b/~v@4", "+u@1, a/S@2, b/+v@2, b/S@2, ~u@3, b/~v@4",
			counts{Live: 2}},
		{"a GAP of another namespace permits nothing", ours, "+u@1, b/+v@2, ~u@3, b/~v@4, ~u@5",
			"+u@1, b/+v@2, S@2, b/G, b/~v@4!, b/S@4, ~u@5", counts{Live: 1, Changes: 1}},
		{"a Mux with Latest may leave out states", subject{Ours: true, Coalesces: true}, plain,
			"+u@1, +v@2, S@2, -v@4, +w@5, ~u@6", counts{Live: 3}},
		{"but not a deletion", subject{Ours: true, Coalesces: true}, plain, "+u@1, +v@2, S@2, +w@5, ~u@6",
			counts{Live: 2, Deletions: 1, Folds: 1}},

		{"a client of others may change the order of objects", others, plain,
			"+u@1, +v@2, S@2, -v@4, ~u@3, +w@5, ~u@6", counts{Live: 4}},
		{"but not that of an object", others, plain, "+u@1, +v@2, S@2, ~u@6, -v@4, +w@5, ~u@3",
			counts{Live: 4, Disorder: 1, Folds: 1}},
		{"it lists again and says so: states that are known are no repeats", others, plain,
			"+u@1, +v@2, S@2, ~u@3, G:not given, +u@3, -v@3!, S@4, +w@5, ~u@6", counts{Live: 3}},
		{"what is missing before its GAP is not in it", others, plain,
			"+u@1, +v@2, S@2, -v@4, G:not given, +w@5, ~u@6, S@6", counts{Changes: 1, Live: 1}},
		{"it lists again right after a SYNCED without a version", others, plain,
			"+u@1, +v@2, S, +u@1, +v@2, ~u@3, -v@4, +w@5, ~u@6", counts{Live: 4, Repeats: 2}},
		{"it lists again and does not say so", others, plain,
			"+u@1, +v@2, S@2, ~u@3, +u@3, +w@5, +u@6", counts{Live: 3, Repeats: 1, Changes: 1, Deletions: 1, Folds: 1}},
		{"a list shows it an older state", others, plain,
			"+u@1, +v@2, S@2, ~u@3, -v@4, +w@5, ~u@6, +u@3, +u@6", counts{Live: 4, Repeats: 2, Disorder: 1}},
		{"its SYNCED without a version is after all events, or is wrong", others, plain,
			"+u@1, S, +v@2, -v@4, +w@5, ~u@6", counts{Live: 4, Changes: 1}},
		{"its SYNCED comes too soon", others, plain,
			"+v@2, S@2, +u@1, ~u@3, -v@4, +w@5, ~u@6", counts{Live: 4, Folds: 1}},
		{"etcd is restored, and old states are true again", others, "+u@1, ~u@2, +v@3, rewind@2, +w@3",
			"+u@1, S@1, ~u@2, +v@3, later, ~u@2, -v@3!, +w@3", counts{Live: 3}},
		{"but not twice", others, "+u@1, ~u@2, +v@3, rewind@2, +w@3",
			"+u@1, S@1, ~u@2, +v@3, later, ~u@2, -v@3!, +w@3, ~u@2", counts{Live: 3, Repeats: 1}},
		{"it calls an object deleted long before it is", others, "+u@1, ~u@2, later, -u@3",
			"+u@1, S@1, ~u@2, -u@2!, later, -u@3", counts{Live: 2, Invented: 1}},
		{"and does not say so when it is", others, "+u@1, ~u@2, later, -u@3",
			"+u@1, S@1, ~u@2, -u@2!", counts{Deletions: 1, Changes: 1, Live: 1, Invented: 1}},
		{"a GAP that is not closed is open at the end", others, plain,
			"+u@1, +v@2, S@2, ~u@3, G, +u@6", counts{Live: 1, Deletions: 1, InGaps: 2, Folds: 1}},
		{"a client that resumes repeats what it has not called its POSITION",
			subject{ByObject: true, Checkpoint: true}, plain,
			"+u@1, +v@2, S@2, ~u@3, C@3, -v@4, run, -v@4, +w@5, ~u@6", counts{Live: 2}},
		{"and what it has", subject{ByObject: true, Checkpoint: true}, plain,
			"+u@1, +v@2, S@2, ~u@3, -v@4, C@4, run, ~u@3, +w@5, ~u@6", counts{Live: 2, Repeats: 1}},
	} {
		t.Run(test.why, func(t *testing.T) {
			v := judge(test.subject, parseTruth(test.truth), parseReports(test.reports), nil)
			if diff := cmp.Diff(test.want, countsOf(v)); diff != "" {
				t.Errorf("judge(%q) of %q (-want +got):\n%s%s", test.reports, test.truth, diff, texts(v))
			}
			if v.broken() > 0 && len(v.details.violations) == 0 {
				t.Error("nothing describes the violations")
			}
			checkFiles(t, test.subject, parseTruth(test.truth), parseReports(test.reports), v)
		})
	}
}

func texts(v *verdict) string {
	var b strings.Builder
	for _, one := range v.details.violations {
		fmt.Fprintf(&b, "%s\n%s", one.Text, one.Context)
	}
	return b.String()
}

// TestTimeBackIsNever: a client that does not report what follows a fault has not come back.
func TestTimeBackIsNever(t *testing.T) {
	h := parseTruth("+u@1, ~u@2, ~u@3, ~u@4")
	faults := []fault{{"reset", time.Unix(2, 0), time.Unix(2, 0)}}
	v := judge(subject{}, h, parseReports("+u@1, S@1"), faults)
	if diff := cmp.Diff(map[string]int64{"reset": -1, "": -1}, v.Times.Recovery); diff != "" {
		t.Error(diff)
	}
	if got := milliseconds(v.Times.Recovery, "reset"); got != "never" {
		t.Errorf("it is printed as %q", got)
	}
}

// TestVersionsThatNeverWere: SYNCED at a revision that etcd never had covers nothing.
func TestVersionsThatNeverWere(t *testing.T) {
	h := parseTruth("+u@1, ~u@2, ~u@3")
	h.tops = []top{{time.Unix(0, 0), 3}, {time.Unix(500, 0), 1000}}
	for _, test := range []struct {
		why, reports string
		want         counts
	}{
		{"then nothing", "+u@1, S@999", counts{Invented: 1, Changes: 2, Folds: 1}},
		{"then everything", "+u@1, S@999, ~u@2, ~u@3", counts{Invented: 1, Live: 2}},
		{"after a GAP", "+u@1, S@1, G, ~u@2!, S@999, ~u@3", counts{Invented: 1, Live: 1}},
	} {
		v := judge(subject{Name: "test"}, h, parseReports(test.reports), nil)
		if diff := cmp.Diff(test.want, countsOf(v)); diff != "" {
			t.Errorf("%s (-want +got):\n%s%s", test.why, diff, texts(v))
		}
	}
}

// TestViolationsOfEachKindAreDescribed: many repeats do not hide what is missing.
func TestViolationsOfEachKindAreDescribed(t *testing.T) {
	var truth, reports []string
	for i := 1; i <= 40; i++ {
		truth = append(truth, fmt.Sprintf("+u%d@%d", i, i))
		if i <= 20 {
			reports = append(reports, fmt.Sprintf("+u%d@%d", i, i))
		}
	}
	reports = append([]string{"S@0"}, append(reports, reports...)...)
	v := judge(subject{ByObject: true}, parseTruth(strings.Join(truth, ", ")),
		parseReports(strings.Join(reports, ", ")), nil)
	found := map[string]int{}
	for _, one := range v.details.violations {
		for _, text := range []string{"was reported before", "never reported", "at the end"} {
			if strings.Contains(one.Text, text) {
				found[text]++
			}
		}
	}
	want := map[string]int{"was reported before": perKind, "never reported": perKind, "at the end": 1}
	if diff := cmp.Diff(want, found); diff != "" || v.Repeats != 20 || v.ChangesMissed != 20 {
		t.Errorf("%d repeats, %d missing: %s", v.Repeats, v.ChangesMissed, diff)
	}
}

// TestSeenByOthers: a change that a GAP excuses is a loss all the same, if another client has reported it.
func TestSeenByOthers(t *testing.T) {
	h := parseTruth("+u@1, ~u@2, ~u@3, ~u@4, -u@5")
	var got []int
	verdicts := []*verdict{}
	for _, reports := range []string{
		"+u@1, S@1, ~u@2, ~u@3, ~u@4, -u@5",
		"+u@1, S@1, G, ~u@4!, S@4, -u@5", // 2 and 3 are missing
		"+u@1, S@1, ~u@3, -u@4!",         // 2 and 4 are missing; the deletion is inferred
		"+u@1, ~u@2, ~u@3, S@3, -u@5",    // 4 is missing
	} {
		verdicts = append(verdicts, judge(subject{Name: "test"}, h, parseReports(reports), nil))
	}
	alone := verdicts[1:2]
	compare(alone)
	if alone[0].SeenByOthers != 0 {
		t.Error("there are no others")
	}
	compare(verdicts)
	for _, v := range verdicts {
		got = append(got, v.SeenByOthers)
	}
	if diff := cmp.Diff([]int{0, 2, 2, 1}, got); diff != "" {
		t.Error(diff)
	}
}

// TestTimeBackIsMeasuredFromTheEndOfAFault checks that only changes after the end of a fault count, and that the time
// until SYNCED counts if a gap was open.
func TestTimeBackIsMeasuredFromTheEndOfAFault(t *testing.T) {
	h := parseTruth("+u@1, ~u@2, ~u@3, ~u@4")
	second := func(n int) time.Time { return time.Unix(int64(n), 0) }
	reports := parseReports("+u@1, S@1, ~u@2, G, ~u@3!, S@3, ~u@4")
	for i, at := range []int{1, 1, 3, 3, 6, 6, 9} {
		reports[i].At = second(at)
	}
	faults := []fault{
		{"reset", second(1), second(1)}, // ~u@2 is committed at 2 and reported at 3
		{"stop", second(2), second(3)},  // ~u@3 is inferred; ~u@4 is committed at 4 and reported at 9; SYNCED at 6
		{"late", second(8), second(8)},  // nothing is committed after it
	}
	v := judge(subject{Ours: true}, h, reports, faults)
	got := []map[string]int64{v.Times.Recovery, v.Times.Synced}
	want := []map[string]int64{{"reset": 2000, "stop": 6000, "": 6000}, {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recoveries (-want +got):\n%s", diff)
	}
	reports[3].At = second(2) // the gap begins before the end of the fault
	v = judge(subject{Ours: true}, h, reports, faults)
	if diff := cmp.Diff(map[string]int64{"stop": 3000, "": 3000}, v.Times.Synced); diff != "" {
		t.Errorf("time until SYNCED (-want +got):\n%s", diff)
	}
}

// TestContents: what a cache contains is that of one version after the other.
func TestContents(t *testing.T) {
	h := parseTruth("+u@1, +v@2, ~u@3, -v@4, rewind@2, ~u@3, ~v@5")
	for _, test := range []struct {
		why         string
		unversioned bool
		has         []map[types.UID]string
		want        contentsCounts
	}{
		{"in order", false, []map[types.UID]string{{"u": "1"}, {"u": "1", "v": "2"}, {"u": "3", "v": "2"}, {"u": "3"}},
			contentsCounts{Compared: 4}},
		{"an object that does not exist", false, []map[types.UID]string{{"u": "1", "w": "1"}},
			contentsCounts{Compared: 1, Wrong: 1}},
		{"an object is missing", false, []map[types.UID]string{{"u": "3", "v": "2"}, {"v": "2"}},
			contentsCounts{Compared: 2, Wrong: 1}},
		{"... since a list without a version", true, []map[types.UID]string{{"u": "3", "v": "2"}, {"v": "2"}},
			contentsCounts{Compared: 2, Apart: 1}},
		{"back in time", false, []map[types.UID]string{{"u": "3"}, {"u": "1"}},
			contentsCounts{Compared: 2, Wrong: 1}},
		{"after the restore", false, []map[types.UID]string{{"u": "3"}, {"u": "3", "v": "2"}, {"u": "3", "v": "5"}},
			contentsCounts{Compared: 3}},
	} {
		var reports []report
		for _, has := range test.has {
			reports = append(reports, report{
				At: time.Unix(1000, 0), Run: 1, Kind: contents, Resource: "widgets." + group, Has: has,
				Unversioned: test.unversioned,
			})
		}
		v := judge(subject{Name: "test", ByObject: true}, h, reports, nil)
		got := contentsCounts{Compared: v.Contents.Compared, Wrong: v.Contents.Wrong, Apart: v.Contents.Apart}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(contentsCounts{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.why, diff)
		}
	}
}
