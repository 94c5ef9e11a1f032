package streamtest

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/stream"
)

// lives has two objects that change, one that is removed and one that is replaced.
const lives = `ADDED a(u1)@1; ADDED b(u2)@2; MODIFIED a(u1)@3; ADDED c(u3)@4; DELETED b(u2)@5
	ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9`

// restored went back from 5 to 3 and wrote other changes then.
const restored = `ADDED a(u1)@1; ADDED b(u2)@2; MODIFIED a(u1)@3; MODIFIED a(u1)@4; ADDED c(u3)@5
	rewind 3; DELETED b(u2)@4; ADDED c(u9)@5 =50; MODIFIED a(u1)@6`

const spaces = `ADDED x/a(u1)@1; ADDED y/b(u2)@2; MODIFIED x/a(u1)@3; MODIFIED y/b(u2)@4; DELETED x/a(u1)@5; ADDED y/c(u3)@6`

var (
	settled   = CheckOptions{Settled: true}
	twoSpaces = CheckOptions{Settled: true, Namespaces: []string{"x", "y"}}
	noIndex   = CheckOptions{Settled: true, IndexNone: true}
	fromNow   = CheckOptions{Settled: true, Now: true}
	after5    = CheckOptions{Settled: true, After: "5"}
	from4     = CheckOptions{Settled: true, From: &Resume{ResourceVersion: "4", Objects: []KnownObject{
		{types.NamespacedName{Name: "a"}, "u1", "3"}, {types.NamespacedName{Name: "b"}, "u2", "2"}, {types.NamespacedName{Name: "c"}, "u3", "4"}}}}
)

const (
	upTo4   = "ADDED a(u1)@3; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4;"
	theRest = "DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9"
	// differ4to9 are the differences between 4 and 9.
	differ4to9 = "MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; DELETED b(u2)@2 inferred; SYNCED @9"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		why     string
		history string
		opts    CheckOptions
		events  string
		want    string
	}{
		{"nothing happened", "", settled, "SYNCED @1", ""},
		{"a snapshot in any order, then all that happens", lives, settled, upTo4 + theRest, ""},
		{"it may stop at any time", lives, CheckOptions{}, upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6", ""},
		{"it may stop in the middle of a snapshot", lives, CheckOptions{}, "ADDED a(u1)@1", ""},
		{"a snapshot that breaks off goes on as differences", lives, settled,
			"ADDED a(u1)@1; ADDED b(u2)@2; MODIFIED a(u1)@3 inferred; ADDED c(u3)@4; DELETED b(u2)@2 inferred; ADDED d(u5)@8; MODIFIED a(u1)@9 inferred; SYNCED @9", ""},
		{"a gap with every kind of difference", lives, settled, upTo4 + "GAP expired 4..9; " + differ4to9, ""},
		{"a gap in which another object took the name", lives, settled,
			upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; GAP expired 6..; MODIFIED a(u1)@9 inferred; DELETED d(u4)@6 inferred; ADDED d(u5)@8 inferred; SYNCED @9", ""},
		{"a gap without differences", lives, settled, "ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8; SYNCED @9; GAP expired 9..9; SYNCED @12", ""},
		{"several gaps before one SYNCED", lives, settled, upTo4 + "GAP expired 4..5; DELETED b(u2)@2 inferred; GAP poison 5..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", ""},
		{"BOOKMARK up to the next change", lives, settled, upTo4 + "BOOKMARK @4; DELETED b(u2)@5; BOOKMARK @5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9; BOOKMARK @20", ""},
		{"a removal that is inferred from what replaces it", lives, settled, upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@6 inferred; ADDED d(u5)@8; MODIFIED a(u1)@9", ""},
		{"a rewind told as such", restored, settled, "ADDED a(u1)@4; ADDED b(u2)@2; SYNCED @4; ADDED c(u3)@5; GAP rewound 5..4; DELETED b(u2)@2 inferred; DELETED c(u3)@5 inferred; MODIFIED a(u1)@3 inferred; SYNCED @4; ADDED c(u9)@5 =50; MODIFIED a(u1)@6", ""},
		{"a rewind behind which nothing had been told", restored, settled, "ADDED a(u1)@3; ADDED b(u2)@2; SYNCED @3; DELETED b(u2)@4; ADDED c(u9)@5 =50; MODIFIED a(u1)@6", ""},
		{"the same versions once more after a rewind that undid nothing", "ADDED a(u1)@1; rewind 1; MODIFIED a(u1)@2", settled, "ADDED a(u1)@1; SYNCED @1; GAP rewound 2..1; SYNCED @1; MODIFIED a(u1)@2", ""},
		{"now: nothing of the snapshot, but its removals", lives, fromNow, "SYNCED @4; " + theRest, ""},
		{"now: differences to what was not told", lives, fromNow, "SYNCED @4; GAP expired 4..; " + differ4to9, ""},
		{"after: what happened, without SYNCED", lives, after5, "ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", ""},
		{"after: SYNCED once the watch is open", lives, after5, "SYNCED @5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", ""},
		{"after: a gap, what is unchanged told", lives, after5, "GAP expired 5..9 history lost; ADDED a(u1)@9 inferred; ADDED c(u3)@4 inferred; ADDED d(u5)@8 inferred; SYNCED @9", ""},
		{"after: a gap, what is unchanged not told", lives, after5, "GAP expired 5..9 history lost; ADDED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", ""},
		{"from: nothing was lost", lives, from4, theRest, ""},
		{"from: expired, differences only", lives, from4, "GAP expired 4..9; " + differ4to9, ""},
		{"no index: all of it again", lives, noIndex, upTo4 + "DELETED b(u2)@5; GAP expired 5..9 history lost; ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8; SYNCED @9", ""},
		{"no index: a snapshot that begins again", lives, noIndex, "ADDED a(u1)@3; ADDED b(u2)@2; GAP restarted .. history lost; ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8; SYNCED @9", ""},
		{"namespaces go on by themselves", spaces, twoSpaces, "ADDED y/b(u2)@2 in y; ADDED x/a(u1)@1 in x; SYNCED ; MODIFIED y/b(u2)@4 in y; MODIFIED x/a(u1)@3 in x; ADDED y/c(u3)@6 in y; DELETED x/a(u1)@5 in x", ""},
		{"namespaces at different versions, one live before SYNCED", spaces, twoSpaces, "ADDED x/a(u1)@1 in x; MODIFIED x/a(u1)@3 in x; DELETED x/a(u1)@5 in x; ADDED y/b(u2)@2 in y; SYNCED ; MODIFIED y/b(u2)@4 in y; ADDED y/c(u3)@6 in y", ""},
		{"a gap in one namespace while another goes on", spaces, twoSpaces, "ADDED x/a(u1)@1 in x; ADDED y/b(u2)@2 in y; SYNCED ; GAP expired 1..5 in x; MODIFIED y/b(u2)@4 in y; DELETED x/a(u1)@1 inferred in x; SYNCED ; ADDED y/c(u3)@6 in y", ""},
		{"one namespace has versions", spaces, CheckOptions{Settled: true, Namespaces: []string{"y"}}, "ADDED y/b(u2)@2 in y; SYNCED @3; MODIFIED y/b(u2)@4 in y; ADDED y/c(u3)@6 in y", ""},
		{"what is not selected does not exist", lives, CheckOptions{Settled: true, Selected: contentAbove(2)}, "ADDED a(u1)@3; ADDED c(u3)@4; SYNCED @4; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", ""},
		{"leaving the selection is DELETED, coming back ADDED", "ADDED a(u1)@1 =5; MODIFIED a(u1)@2 =1; MODIFIED a(u1)@3 =1; MODIFIED a(u1)@4 =6", CheckOptions{Settled: true, Selected: contentAbove(2)},
			"ADDED a(u1)@1 =5; SYNCED @1; DELETED a(u1)@2 =1; ADDED a(u1)@4 =6", ""},

		{"two live events are swapped", lives, settled, upTo4 + "ADDED d(u4)@6; DELETED b(u2)@5; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", ordered},
		{"a live event from before SYNCED", lives, settled, "ADDED a(u1)@3; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; MODIFIED a(u1)@3; " + theRest, ordered},
		{"out of order within one namespace", spaces, twoSpaces, "ADDED x/a(u1)@1 in x; ADDED y/b(u2)@2 in y; SYNCED ; MODIFIED x/a(u1)@3 in x; DELETED x/a(u1)@5 in x; ADDED y/c(u3)@6 in y; MODIFIED y/b(u2)@4 in y", ordered},

		{"a replay after a reconnect", lives, settled, upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", unique},
		{"a snapshot is told twice", lives, settled, "ADDED a(u1)@3; ADDED a(u1)@3; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, unique},
		{"what the snapshot had comes as live", "ADDED a(u1)@1; ADDED b(u2)@2", settled, "ADDED a(u1)@1; ADDED b(u2)@2; SYNCED @2; ADDED b(u2)@2", unique},
		{"a difference is told twice", lives, settled, upTo4 + "GAP expired 4..9; ADDED d(u5)@8 inferred; ADDED d(u5)@8 inferred; MODIFIED a(u1)@9 inferred; DELETED b(u2)@2 inferred; SYNCED @9", unique},

		{"a live event is left out", lives, settled, upTo4 + "DELETED b(u2)@5; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", complete},
		{"the last one is left out", lives, settled, upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8", complete},
		{"an object is not in the snapshot", lives, settled, "ADDED a(u1)@3; ADDED b(u2)@2; SYNCED @4; " + theRest, complete},
		{"the snapshot is of several versions", lives, settled, "ADDED a(u1)@1; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, complete},
		{"a change in a gap is left out", lives, settled, upTo4 + "GAP expired 4..9; ADDED d(u5)@8 inferred; DELETED b(u2)@2 inferred; SYNCED @9", complete},
		{"BOOKMARK before the event", lives, CheckOptions{}, upTo4 + "DELETED b(u2)@5; BOOKMARK @6", complete},
		{"GAP.From is past what was told", lives, CheckOptions{}, upTo4 + "DELETED b(u2)@5; GAP expired 6..", complete},
		{"left out, in one namespace", spaces, twoSpaces, "ADDED x/a(u1)@1 in x; ADDED y/b(u2)@2 in y; SYNCED ; MODIFIED x/a(u1)@3 in x; DELETED x/a(u1)@5 in x; ADDED y/c(u3)@6 in y", complete},
		{"now: what follows is left out", lives, fromNow, "SYNCED @5; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", complete},

		{"differences without GAP", lives, settled, upTo4 + differ4to9, announced},
		{"SYNCED without GAP", lives, settled, upTo4 + "SYNCED @4; " + theRest, announced},
		{"no SYNCED after the differences", lives, settled, upTo4 + "GAP expired 4..5; DELETED b(u2)@2 inferred; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", announced},
		{"no SYNCED at all", lives, settled, "ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8", announced},
		{"GAP does not say why", lives, settled, upTo4 + "GAP  4..9; " + differ4to9, announced},
		{"GAP does not say from where", lives, settled, upTo4 + "GAP expired ..9; " + differ4to9, announced},
		{"unchanged, and told in a gap", lives, settled, upTo4 + "GAP expired 4..9; MODIFIED c(u3)@4 inferred; " + differ4to9, announced},
		{"a difference that is not marked", lives, settled, upTo4 + "GAP expired 4..9; ADDED d(u5)@8; MODIFIED a(u1)@9 inferred; DELETED b(u2)@2 inferred; SYNCED @9", announced},
		{"a snapshot that is marked", lives, settled, "ADDED a(u1)@3 inferred; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, announced},
		{"a live event before SYNCED", lives, settled, "ADDED a(u1)@1; MODIFIED a(u1)@3; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, announced},
		{"now: the snapshot is told", lives, fromNow, upTo4 + theRest, announced},
		{"no index, and history said not to be lost", lives, noIndex, upTo4 + "DELETED b(u2)@5; GAP expired 5..9; ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8; SYNCED @9", announced},
		{"BOOKMARK before SYNCED", lives, settled, "ADDED a(u1)@3; BOOKMARK @4; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, announced},

		{"a live removal is left out", lives, settled, upTo4 + "ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", removed},
		{"replaced, and only the new one told", lives, settled, upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; ADDED d(u5)@8; MODIFIED a(u1)@9", removed},
		{"DELETED with the uid of another", lives, settled, upTo4 + "DELETED b(u1)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", removed},
		{"a removal in a gap is left out", lives, settled, upTo4 + "GAP expired 4..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", removed},
		{"replaced in a gap, and only the new one told", lives, settled, upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; GAP expired 6..; ADDED d(u5)@8 inferred; MODIFIED a(u1)@9 inferred; SYNCED @9", removed},
		{"removed in a gap by another uid", lives, settled, upTo4 + "GAP expired 4..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; DELETED b(u7)@2 inferred; SYNCED @9", removed},
		{"now: a removal is left out", lives, fromNow, "SYNCED @4; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", removed},
		{"removed before a snapshot that broke off ended", lives, settled, "ADDED b(u2)@2; ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8; SYNCED @9", removed},

		{"DELETED of what exists, as after a failure", lives, CheckOptions{}, upTo4 + "DELETED a(u1)@3", truthful},
		{"an object that never was", lives, settled, "ADDED z(u9)@3; ADDED a(u1)@3; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, truthful},
		{"DELETED in a gap of what exists, as after a partial list", lives, settled, upTo4 + "GAP expired 4..9; DELETED c(u3)@4 inferred; " + differ4to9, truthful},
		{"content of another version", lives, settled, upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9 =3", truthful},
		{"content in a snapshot", lives, settled, "ADDED a(u1)@3 =1; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, truthful},
		{"an inferred removal with content", lives, settled, upTo4 + "GAP expired 4..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; DELETED b(u2)@2 =2 inferred; SYNCED @9", truthful},
		{"an inferred removal with its own version", lives, settled, upTo4 + "GAP expired 4..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; DELETED b(u2)@5 inferred; SYNCED @9", truthful},
		{"ADDED of what is known", lives, settled, upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; ADDED a(u1)@9", truthful},
		{"no index: an inferred removal", lives, noIndex, upTo4 + "GAP expired 4..9 history lost; ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8; DELETED b(u2)@2 inferred; SYNCED @9", truthful},
		{"back to life from a stale list", lives, settled, upTo4 + "DELETED b(u2)@5; GAP expired 5..9; ADDED b(u2)@2 inferred; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", truthful},
		{"not one of the namespaces", spaces, twoSpaces, "ADDED x/a(u1)@1 in x; ADDED y/b(u2)@2 in z; ADDED y/b(u2)@2 in y; SYNCED ; MODIFIED y/b(u2)@4 in y; MODIFIED x/a(u1)@3 in x; ADDED y/c(u3)@6 in y; DELETED x/a(u1)@5 in x", truthful},

		{"from: what was known is told again", lives, from4, "GAP expired 4..9; ADDED c(u3)@4 inferred; " + differ4to9, resumed},
		{"from: a live event from before", lives, from4, "ADDED c(u3)@4; " + theRest, resumed},
		{"from: the first change is left out", lives, from4, "ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", resumed},
		{"from: a removal meanwhile is left out", lives, from4, "GAP expired 4..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", resumed},
		{"from: nothing is told", lives, from4, "SYNCED @4", resumed},

		{"a rewind called expired", restored, settled, "ADDED a(u1)@4; ADDED b(u2)@2; SYNCED @4; ADDED c(u3)@5; GAP expired 5..4; DELETED b(u2)@2 inferred; DELETED c(u3)@5 inferred; MODIFIED a(u1)@3 inferred; SYNCED @4; ADDED c(u9)@5 =50; MODIFIED a(u1)@6", monotonic},
		{"live events of a past that is another", restored, settled, "ADDED a(u1)@4; ADDED b(u2)@2; SYNCED @4; ADDED c(u3)@5; MODIFIED a(u1)@6; GAP rewound 6..6; DELETED b(u2)@2 inferred; DELETED c(u3)@5 inferred; ADDED c(u9)@5 =50 inferred; SYNCED @6", monotonic},
		{"a lagging replica", lives, settled, upTo4 + "GAP expired 4..2; MODIFIED a(u1)@1 inferred; DELETED c(u3)@4 inferred; SYNCED @2; MODIFIED a(u1)@3; ADDED c(u3)@4; " + theRest, monotonic},
		{"an object goes back in a gap", lives, settled, upTo4 + "GAP expired 4..9; MODIFIED a(u1)@1 inferred; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; DELETED b(u2)@2 inferred; SYNCED @9", monotonic},
		{"the rewind is never told", restored, settled, "ADDED a(u1)@4; ADDED b(u2)@2; SYNCED @4; ADDED c(u3)@5", monotonic},
		{"BOOKMARK goes back", lives, CheckOptions{}, upTo4 + "BOOKMARK @3", monotonic},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			onlyBroken(t, Check(historyOf(t, tt.history), eventsOf(t, tt.events), &tt.opts), tt.want)
		})
	}
}

func TestCheckOptions(t *testing.T) {
	events := eventsOf(t, upTo4+theRest)
	if err := Check(historyOf(t, lives), events, nil); err != nil {
		t.Errorf("nil options: %v", err)
	}
	for _, bad := range []CheckOptions{{Now: true, After: "1"}, {IndexNone: true, Selected: contentAbove(0)}} {
		if err := Check(historyOf(t, lives), events, &bad); err == nil {
			t.Errorf("%+v are accepted", bad)
		}
	}
	opts := CheckOptions{Settled: true, Transform: func(u *unstructured.Unstructured) { delete(u.Object, "spec") }}
	onlyBroken(t, Check(historyOf(t, lives), events, &opts), truthful)
	for _, ev := range events {
		if ev.Object != nil {
			delete(ev.Object.Object, "spec")
		}
	}
	h := historyOf(t, lives)
	onlyBroken(t, Check(h, events, &opts), "")
	if !contentAbove(0)(h.Changes[0].Object) {
		t.Error("the history was transformed")
	}
}

func TestCheckRequestsAtZero(t *testing.T) {
	for _, tt := range []struct {
		why, verb, rv string
		want          string
	}{
		{"a list of any state", "list", "0", monotonic},
		{"a watch from any state", "watch", "0", monotonic},
		{"the newest state", "list", "", ""},
		{"one object, which is not of the sequence", "get", "0", ""},
	} {
		onlyBroken(t, Check(History{Requests: []Request{{Verb: tt.verb, ResourceVersion: tt.rv}}}, nil, nil), tt.want)
	}
}

// A Violation says which event and what it should have been.
func TestViolation(t *testing.T) {
	err := Check(historyOf(t, lives), eventsOf(t, upTo4+"ADDED d(u4)@6"), nil)
	var v *Violation
	if !errors.As(err, &v) || v.Index != 4 || v.What != "ADDED d@6" {
		t.Errorf("got %#v", v)
	}
	const want = "4 ADDED d@6: not removed: DELETED b@5 comes before it, and is missing"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

// Fields that contradict each other, or say what can't be.
func TestCheckFields(t *testing.T) {
	for _, tt := range []struct {
		why   string
		spoil func([]stream.Event)
		want  string
	}{
		{"nothing is wrong", func([]stream.Event) {}, ""},
		{"of another resource", func(events []stream.Event) { events[1].Resource.Resource = "gadgets" }, truthful},
		{"of another kind", func(events []stream.Event) { events[0].Resource.Kind = "Gadget" }, truthful},
		{"a GAP with a version", func(events []stream.Event) { events[4].ResourceVersion = "9" }, truthful},
		{"a GAP for no reason that there is", func(events []stream.Event) { events[4].Gap.Reason = "bored" }, announced},
		{"a GAP for a reason that is none of the others", func(events []stream.Event) { events[4].Gap.Reason = stream.GapScope }, ""},
		{"a GAP of less than no time", func(events []stream.Event) { events[4].Gap.Duration = -time.Second }, announced},
		{"a SYNCED without a version", func(events []stream.Event) { events[3].ResourceVersion = "" }, truthful},
		{"a SYNCED with details", func(events []stream.Event) { events[3].Gap = events[4].Gap }, truthful},
	} {
		events := eventsOf(t, upTo4+"GAP expired 4..9; "+differ4to9)
		tt.spoil(events)
		t.Run(tt.why, func(t *testing.T) { onlyBroken(t, Check(historyOf(t, lives), events, nil), tt.want) })
	}
}

// Whatever is recorded, Check only says that it is wrong.
func TestCheckNonsense(t *testing.T) {
	odd := []*unstructured.Unstructured{nil, {}, {Object: map[string]any{}}, {Object: map[string]any{"metadata": 7, "spec": make(chan int)}},
		{Object: map[string]any{"metadata": map[string]any{"name": 3, "uid": []any{}}}}, objectAt("", "a", "u1", "1", 1)}
	histories := []History{{}, {Rewinds: []Rewind{{}, {To: "0"}, {To: "x"}}}, historyOf(t, restored)}
	for _, o := range odd {
		histories = append(histories, History{Changes: []Change{{}, {Type: watch.Added, Object: o, Epoch: -3}, {Type: watch.Deleted, Object: o, Epoch: 9, ResourceVersion: "x"}, {Type: watch.Error, Object: o}}})
	}
	for _, h := range histories {
		for _, opts := range []CheckOptions{{}, fromNow, after5, from4, twoSpaces, noIndex, {From: &Resume{}}, {After: "x"}, {Namespaces: []string{"", "a", "a"}}} {
			for _, o := range odd {
				for _, kind := range []stream.Type{stream.Added, stream.Modified, stream.Deleted, stream.Bookmark, stream.Synced, stream.Gap, "", "PATCHED"} {
					opts.Selected = contentAbove(0)
					ev := stream.Event{Type: kind, Object: o}
					inferred := ev
					inferred.Inferred = true
					if err := Check(h, []stream.Event{{}, ev, inferred, {Type: stream.Gap}, ev, {Type: stream.Synced}, ev, inferred, ev}, &opts); err == nil {
						t.Fatalf("nothing wrong with %v", ev)
					}
				}
			}
		}
	}
}
