package streamtest_test

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The promises that a streamtest.Violation names.
const (
	ordered, unique, complete, announced  = "ordered", "unique", "complete", "announced"
	removed, truthful, resumed, monotonic = "removed", "truthful", "resumed", "monotonic"
)

// lives has an object that changes, one that is removed and one that is replaced.
const lives = `ADDED a(u1)@1; ADDED b(u2)@2; MODIFIED a(u1)@3; ADDED c(u3)@4; DELETED b(u2)@5
	ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9`

// restored goes back from 5 to 3, and other changes follow.
const restored = `ADDED a(u1)@1; ADDED b(u2)@2; MODIFIED a(u1)@3; MODIFIED a(u1)@4; ADDED c(u3)@5
	rewind 3; DELETED b(u2)@4; ADDED c(u9)@5 =50; MODIFIED a(u1)@6`

const spaces = `ADDED x/a(u1)@1; ADDED y/b(u2)@2; MODIFIED x/a(u1)@3; MODIFIED y/b(u2)@4; DELETED x/a(u1)@5
	ADDED y/c(u3)@6`

var (
	whole     = streamtest.CheckOptions{Complete: true}
	twoSpaces = streamtest.CheckOptions{Complete: true, Namespaces: []string{"x", "y"}}
	fromNow   = streamtest.CheckOptions{Complete: true, Now: true}
	after5    = streamtest.CheckOptions{Complete: true, After: "5"}
	from4     = streamtest.CheckOptions{Complete: true,
		From: positionAt("4", known("a", "u1", "3"), known("b", "u2", "2"), known("c", "u3", "4"))}
	// partial4 began after version 3, and an event of a was not acked.
	partial4 = streamtest.CheckOptions{Complete: true, From: partialAt("4", known("a", "u1", ""))}
)

func partialAt(rv string, objects ...checkpoint.Object) *checkpoint.Position {
	p := positionAt(rv, objects...)
	p.Partial = true
	return p
}

func positionAt(rv string, objects ...checkpoint.Object) *checkpoint.Position {
	return &checkpoint.Position{ResourceVersions: map[string]string{"": rv}, Objects: objects}
}

func known(name string, uid types.UID, rv string) checkpoint.Object {
	return checkpoint.Object{Name: name, UID: uid, ResourceVersion: rv}
}

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
		opts    streamtest.CheckOptions
		events  string
		want    string
	}{
		{"nothing happened", "", whole, "SYNCED @1", ""},
		{"a snapshot in any order, then all changes", lives, whole, upTo4 + theRest, ""},
		{"a recording may end anywhere", lives, streamtest.CheckOptions{}, upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6",
			""},
		{"a recording may end within a snapshot", lives, streamtest.CheckOptions{}, "ADDED a(u1)@1", ""},
		{"an interrupted snapshot continues with differences", lives, whole,
			"ADDED a(u1)@1; ADDED b(u2)@2; MODIFIED a(u1)@3 inferred; ADDED c(u3)@4; DELETED b(u2)@2 inferred; " +
				"ADDED d(u5)@8; MODIFIED a(u1)@9 inferred; SYNCED @9", ""},
		{"a gap with every kind of difference", lives, whole, upTo4 + "GAP expired 4..9; " + differ4to9, ""},
		{"a gap in which another object takes the name", lives, whole,
			upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; GAP expired 6..; MODIFIED a(u1)@9 inferred; " +
				"DELETED d(u4)@6 inferred; ADDED d(u5)@8 inferred; SYNCED @9", ""},
		{"a gap without differences", lives, whole,
			"ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8; SYNCED @9; GAP expired 9..9; SYNCED @12", ""},
		{"several gaps before one SYNCED", lives, whole,
			upTo4 + "GAP expired 4..5; DELETED b(u2)@2 inferred; GAP poison 5..9; MODIFIED a(u1)@9 inferred; " +
				"ADDED d(u5)@8 inferred; SYNCED @9",
			""},
		{"a BOOKMARK may have any version up to the next change", lives, whole,
			upTo4 + "BOOKMARK @4; DELETED b(u2)@5; BOOKMARK @5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; " +
				"MODIFIED a(u1)@9; BOOKMARK @20",
			""},
		{"a removal that is inferred from the replacement", lives, whole,
			upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@6 inferred; ADDED d(u5)@8; MODIFIED a(u1)@9", ""},
		{"a rewind with its GAP", restored, whole,
			"ADDED a(u1)@4; ADDED b(u2)@2; SYNCED @4; ADDED c(u3)@5; GAP rewound 5..4; DELETED b(u2)@2 inferred; " +
				"DELETED c(u3)@5 inferred; MODIFIED a(u1)@3 inferred; SYNCED @4; ADDED c(u9)@5 =50; " +
				"MODIFIED a(u1)@6", ""},
		{"a rewind to a version after the last delivered one", restored, whole,
			"ADDED a(u1)@3; ADDED b(u2)@2; SYNCED @3; DELETED b(u2)@4; ADDED c(u9)@5 =50; MODIFIED a(u1)@6", ""},
		{"the same versions again after a rewind that undid nothing", "ADDED a(u1)@1; rewind 1; MODIFIED a(u1)@2",
			whole, "ADDED a(u1)@1; SYNCED @1; GAP rewound 2..1; SYNCED @1; MODIFIED a(u1)@2", ""},
		{"now: removals, but nothing of the snapshot", lives, fromNow, "SYNCED @4; " + theRest, ""},
		{"now: differences from objects that were not delivered", lives, fromNow,
			"SYNCED @4; GAP expired 4..; " + differ4to9, ""},
		{"after: the changes, without SYNCED", lives, after5,
			"ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", ""},
		{"after: SYNCED once the watch is open", lives, after5,
			"SYNCED @5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", ""},
		{"after: a gap, with unchanged objects", lives, after5,
			"GAP expired 5..9 history lost; ADDED a(u1)@9 inferred; ADDED c(u3)@4 inferred; " +
				"ADDED d(u5)@8 inferred; SYNCED @9", ""},
		{"after: a gap, without unchanged objects", lives, after5,
			"GAP expired 5..9 history lost; ADDED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", ""},
		{"from: nothing was lost", lives, from4, theRest, ""},
		{"from: expired, differences only", lives, from4, "GAP expired 4..9; " + differ4to9, ""},
		{"from: the change of an object that may have been delivered is ADDED", lives, partial4,
			"DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; ADDED a(u1)@9", ""},
		{"from: an object that may have been delivered, after a gap", lives, partial4,
			"GAP expired 4..9 history lost; ADDED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", ""},
		{"each namespace advances separately", spaces, twoSpaces,
			"ADDED y/b(u2)@2 in y; ADDED x/a(u1)@1 in x; SYNCED ; MODIFIED y/b(u2)@4 in y; " +
				"MODIFIED x/a(u1)@3 in x; ADDED y/c(u3)@6 in y; DELETED x/a(u1)@5 in x", ""},
		{"namespaces at different versions, one live before SYNCED", spaces, twoSpaces,
			"ADDED x/a(u1)@1 in x; MODIFIED x/a(u1)@3 in x; DELETED x/a(u1)@5 in x; ADDED y/b(u2)@2 in y; " +
				"SYNCED ; MODIFIED y/b(u2)@4 in y; ADDED y/c(u3)@6 in y", ""},
		{"a gap in one namespace while another is live", spaces, twoSpaces,
			"ADDED x/a(u1)@1 in x; ADDED y/b(u2)@2 in y; SYNCED ; GAP expired 1..5 in x; MODIFIED y/b(u2)@4 in y; " +
				"DELETED x/a(u1)@1 inferred in x; SYNCED ; ADDED y/c(u3)@6 in y", ""},
		{"SYNCED of a single namespace has a version", spaces,
			streamtest.CheckOptions{Complete: true, Namespaces: []string{"y"}},
			"ADDED y/b(u2)@2 in y; SYNCED @3; MODIFIED y/b(u2)@4 in y; ADDED y/c(u3)@6 in y", ""},
		{"an unselected object does not exist", lives,
			streamtest.CheckOptions{Complete: true, Selected: oracle.Above(2)},
			"ADDED a(u1)@3; ADDED c(u3)@4; SYNCED @4; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9",
			""},
		{"DELETED when it leaves the selection, ADDED when it returns",
			"ADDED a(u1)@1 =5; MODIFIED a(u1)@2 =1; MODIFIED a(u1)@3 =1; MODIFIED a(u1)@4 =6",
			streamtest.CheckOptions{Complete: true, Selected: oracle.Above(2)},
			"ADDED a(u1)@1 =5; SYNCED @1; DELETED a(u1)@2 =1; ADDED a(u1)@4 =6", ""},

		{"two live events are swapped", lives, whole,
			upTo4 + "ADDED d(u4)@6; DELETED b(u2)@5; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", ordered},
		{"a live event from before SYNCED", lives, whole,
			"ADDED a(u1)@3; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; MODIFIED a(u1)@3; " + theRest, ordered},
		{"out of order within one namespace", spaces, twoSpaces,
			"ADDED x/a(u1)@1 in x; ADDED y/b(u2)@2 in y; SYNCED ; MODIFIED x/a(u1)@3 in x; " +
				"DELETED x/a(u1)@5 in x; ADDED y/c(u3)@6 in y; MODIFIED y/b(u2)@4 in y", ordered},

		{"a replay after a reconnect", lives, whole,
			upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9",
			unique},
		{"a snapshot is delivered twice", lives, whole,
			"ADDED a(u1)@3; ADDED a(u1)@3; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, unique},
		{"a live event repeats the snapshot", "ADDED a(u1)@1; ADDED b(u2)@2", whole,
			"ADDED a(u1)@1; ADDED b(u2)@2; SYNCED @2; ADDED b(u2)@2", unique},
		{"a difference is delivered twice", lives, whole,
			upTo4 + "GAP expired 4..9; ADDED d(u5)@8 inferred; ADDED d(u5)@8 inferred; MODIFIED a(u1)@9 inferred; " +
				"DELETED b(u2)@2 inferred; SYNCED @9",
			unique},

		{"a live event is missing", lives, whole,
			upTo4 + "DELETED b(u2)@5; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", complete},
		{"the last event is missing", lives, whole,
			upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8", complete},
		{"an object is not in the snapshot", lives, whole, "ADDED a(u1)@3; ADDED b(u2)@2; SYNCED @4; " + theRest,
			complete},
		{"the snapshot is of several versions", lives, whole,
			"ADDED a(u1)@1; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, complete},
		{"a change in a gap is missing", lives, whole,
			upTo4 + "GAP expired 4..9; ADDED d(u5)@8 inferred; DELETED b(u2)@2 inferred; SYNCED @9", complete},
		{"BOOKMARK before the event", lives, streamtest.CheckOptions{}, upTo4 + "DELETED b(u2)@5; BOOKMARK @6",
			complete},
		{"GAP.From is later than the delivered events", lives, streamtest.CheckOptions{},
			upTo4 + "DELETED b(u2)@5; GAP expired 6..", complete},
		{"an event of one namespace is missing", spaces, twoSpaces,
			"ADDED x/a(u1)@1 in x; ADDED y/b(u2)@2 in y; SYNCED ; MODIFIED x/a(u1)@3 in x; " +
				"DELETED x/a(u1)@5 in x; ADDED y/c(u3)@6 in y", complete},
		{"now: the next event is missing", lives, fromNow,
			"SYNCED @5; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", complete},

		{"differences without GAP", lives, whole, upTo4 + differ4to9, announced},
		{"SYNCED without GAP", lives, whole, upTo4 + "SYNCED @4; " + theRest, announced},
		{"no SYNCED after the differences", lives, whole,
			upTo4 + "GAP expired 4..5; DELETED b(u2)@2 inferred; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; " +
				"MODIFIED a(u1)@9",
			announced},
		{"no SYNCED at all", lives, whole, "ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8", announced},
		{"GAP without a reason", lives, whole, upTo4 + "GAP  4..9; " + differ4to9, announced},
		{"GAP without From", lives, whole, upTo4 + "GAP expired ..9; " + differ4to9, announced},
		{"an unchanged object among the differences", lives, whole,
			upTo4 + "GAP expired 4..9; MODIFIED c(u3)@4 inferred; " + differ4to9, announced},
		{"a difference that is not inferred", lives, whole,
			upTo4 + "GAP expired 4..9; ADDED d(u5)@8; MODIFIED a(u1)@9 inferred; DELETED b(u2)@2 inferred; SYNCED @9",
			announced},
		{"a first snapshot that is inferred", lives, whole,
			"ADDED a(u1)@3 inferred; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, announced},
		{"a live event before SYNCED", lives, whole,
			"ADDED a(u1)@1; MODIFIED a(u1)@3; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, announced},
		{"now: the snapshot is delivered", lives, fromNow, upTo4 + theRest, announced},
		{"everything again after a gap", lives, whole,
			upTo4 + "DELETED b(u2)@5; GAP expired 5..9 history lost; ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8; " +
				"SYNCED @9",
			announced},
		{"after: a GAP without HistoryLost", lives, after5,
			"GAP expired 5..9; ADDED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", announced},
		{"BOOKMARK before SYNCED", lives, whole,
			"ADDED a(u1)@3; BOOKMARK @4; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, announced},

		{"a live removal is missing", lives, whole,
			upTo4 + "ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", removed},
		{"a replacement without the removal", lives, whole,
			upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; ADDED d(u5)@8; MODIFIED a(u1)@9", removed},
		{"DELETED with the uid of another object", lives, whole,
			upTo4 + "DELETED b(u1)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", removed},
		{"a removal in a gap is missing", lives, whole,
			upTo4 + "GAP expired 4..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", removed},
		{"a replacement in a gap without the removal", lives, whole,
			upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; GAP expired 6..; ADDED d(u5)@8 inferred; " +
				"MODIFIED a(u1)@9 inferred; SYNCED @9",
			removed},
		{"a removal in a gap with another uid", lives, whole,
			upTo4 + "GAP expired 4..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; DELETED b(u7)@2 inferred; " +
				"SYNCED @9",
			removed},
		{"now: a removal is missing", lives, fromNow,
			"SYNCED @4; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", removed},
		{"an object of an interrupted snapshot was removed", lives, whole,
			"ADDED b(u2)@2; ADDED a(u1)@9; ADDED c(u3)@4; ADDED d(u5)@8; SYNCED @9", removed},

		{"DELETED of an existing object, as after a failure", lives, streamtest.CheckOptions{},
			upTo4 + "DELETED a(u1)@3", truthful},
		{"an object that never existed", lives, whole,
			"ADDED z(u9)@3; ADDED a(u1)@3; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, truthful},
		{"DELETED of an existing object in a gap, as after a partial list", lives, whole,
			upTo4 + "GAP expired 4..9; DELETED c(u3)@4 inferred; " + differ4to9, truthful},
		{"content of another version", lives, whole,
			upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9 =3", truthful},
		{"wrong content in a snapshot", lives, whole,
			"ADDED a(u1)@3 =1; ADDED b(u2)@2; ADDED c(u3)@4; SYNCED @4; " + theRest, truthful},
		{"an inferred removal with content", lives, whole,
			upTo4 + "GAP expired 4..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; " +
				"DELETED b(u2)@2 =2 inferred; SYNCED @9",
			truthful},
		{"an inferred removal with the version of the removal", lives, whole,
			upTo4 + "GAP expired 4..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; DELETED b(u2)@5 inferred; " +
				"SYNCED @9",
			truthful},
		{"ADDED of a known object", lives, whole,
			upTo4 + "DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; ADDED a(u1)@9", truthful},
		{"a removed object returns from a stale list", lives, whole,
			upTo4 + "DELETED b(u2)@5; GAP expired 5..9; ADDED b(u2)@2 inferred; MODIFIED a(u1)@9 inferred; " +
				"ADDED d(u5)@8 inferred; SYNCED @9",
			truthful},
		{"an event of a namespace that is not watched", spaces, twoSpaces,
			"ADDED x/a(u1)@1 in x; ADDED y/b(u2)@2 in z; ADDED y/b(u2)@2 in y; SYNCED ; MODIFIED y/b(u2)@4 in y; " +
				"MODIFIED x/a(u1)@3 in x; ADDED y/c(u3)@6 in y; DELETED x/a(u1)@5 in x", truthful},

		{"from: a known object is delivered again", lives, from4,
			"GAP expired 4..9; ADDED c(u3)@4 inferred; " + differ4to9, resumed},
		{"from: a live event from before the position", lives, from4, "ADDED c(u3)@4; " + theRest, resumed},
		{"from: the first change is missing", lives, from4,
			"ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", resumed},
		{"from: a removal while it was stopped is missing", lives, from4,
			"GAP expired 4..9; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", resumed},
		{"from: no change is delivered", lives, from4, "SYNCED @4", resumed},
		{"from: MODIFIED of an object that may have been delivered", lives, partial4,
			"DELETED b(u2)@5; ADDED d(u4)@6; DELETED d(u4)@7; ADDED d(u5)@8; MODIFIED a(u1)@9", truthful},
		{"from: the same, after a gap", lives, partial4,
			"GAP expired 4..9 history lost; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", truthful},
		{"from: a GAP without HistoryLost", lives, partial4,
			"GAP expired 4..9; ADDED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", announced},

		{"a rewind called expired", restored, whole,
			"ADDED a(u1)@4; ADDED b(u2)@2; SYNCED @4; ADDED c(u3)@5; GAP expired 5..4; DELETED b(u2)@2 inferred; " +
				"DELETED c(u3)@5 inferred; MODIFIED a(u1)@3 inferred; SYNCED @4; ADDED c(u9)@5 =50; " +
				"MODIFIED a(u1)@6", monotonic},
		{"live events from after a rewind, without GAP", restored, whole,
			"ADDED a(u1)@4; ADDED b(u2)@2; SYNCED @4; ADDED c(u3)@5; MODIFIED a(u1)@6; GAP rewound 6..6; " +
				"DELETED b(u2)@2 inferred; DELETED c(u3)@5 inferred; ADDED c(u9)@5 =50 inferred; SYNCED @6", monotonic},
		{"a lagging replica", lives, whole,
			upTo4 + "GAP expired 4..2; MODIFIED a(u1)@1 inferred; DELETED c(u3)@4 inferred; SYNCED @2; " +
				"MODIFIED a(u1)@3; ADDED c(u3)@4; " + theRest,
			monotonic},
		{"an object goes back in a gap", lives, whole,
			upTo4 + "GAP expired 4..9; MODIFIED a(u1)@1 inferred; MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; " +
				"DELETED b(u2)@2 inferred; SYNCED @9",
			monotonic},
		{"a rewind without GAP", restored, whole, "ADDED a(u1)@4; ADDED b(u2)@2; SYNCED @4; ADDED c(u3)@5",
			monotonic},
		{"a BOOKMARK goes back", lives, streamtest.CheckOptions{}, upTo4 + "BOOKMARK @3", monotonic},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			oracle.WantBroken(t, streamtest.Check(oracle.History(t, tt.history), oracle.Events(t, tt.events), &tt.opts),
				tt.want)
		})
	}
}

func TestCheckOptions(t *testing.T) {
	events := oracle.Events(t, upTo4+theRest)
	if err := streamtest.Check(oracle.History(t, lives), events, nil); err != nil {
		t.Errorf("nil options: %v", err)
	}
	for _, bad := range []streamtest.CheckOptions{{Now: true, After: "1"},
		{After: "1", From: positionAt("1")}, {Now: true, UntilSynced: true}, {After: "1", UntilSynced: true}} {
		if err := streamtest.Check(oracle.History(t, lives), events, &bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
	opts := streamtest.CheckOptions{Complete: true,
		Transform: func(u *unstructured.Unstructured) { delete(u.Object, "spec") }}
	oracle.WantBroken(t, streamtest.Check(oracle.History(t, lives), events, &opts), truthful)
	for _, ev := range events {
		if ev.Object != nil {
			delete(ev.Object.Object, "spec")
		}
	}
	h := oracle.History(t, lives)
	oracle.WantBroken(t, streamtest.Check(h, events, &opts), "")
	if !oracle.Above(0)(h.Changes[0].Object) {
		t.Error("the history was transformed")
	}
}

func TestCheckRefusesRequestsAtZero(t *testing.T) {
	for _, tt := range []struct {
		why, verb, rv string
		want          string
	}{
		{"a list of any state", "list", "0", monotonic},
		{"a watch from any state", "watch", "0", monotonic},
		{"the newest state", "list", "", ""},
		{"a get is not part of the sequence", "get", "0", ""},
	} {
		oracle.WantBroken(t,
			streamtest.Check(streamtest.History{Requests: []streamtest.Request{{Verb: tt.verb,
				ResourceVersion: tt.rv}}}, nil, nil), tt.want)
	}
}

func TestViolationNamesEventAndPromise(t *testing.T) {
	err := streamtest.Check(oracle.History(t, lives), oracle.Events(t, upTo4+"ADDED d(u4)@6"), nil)
	var v *streamtest.Violation
	if !errors.As(err, &v) || v.Index != 4 || v.What != "ADDED d@6" {
		t.Errorf("got %#v", v)
	}
	const want = `4 ADDED d@6: breaks "removed": DELETED b@5 precedes it, and is missing`
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

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
		{"a GAP with an unknown reason", func(events []stream.Event) { events[4].Gap.Reason = "bored" }, announced},
		{"a GAP with the reason scope", func(events []stream.Event) { events[4].Gap.Reason = stream.GapScope }, ""},
		{"a GAP with a negative duration", func(events []stream.Event) { events[4].Gap.Duration = -time.Second },
			announced},
		{"a SYNCED without a version", func(events []stream.Event) { events[3].ResourceVersion = "" }, truthful},
		{"a SYNCED with details", func(events []stream.Event) { events[3].Gap = events[4].Gap }, truthful},
	} {
		events := oracle.Events(t, upTo4+"GAP expired 4..9; "+differ4to9)
		tt.spoil(events)
		t.Run(tt.why, func(t *testing.T) {
			oracle.WantBroken(t, streamtest.Check(oracle.History(t, lives), events, nil), tt.want)
		})
	}
}

func TestCheckNeverPanics(t *testing.T) {
	odd := []*unstructured.Unstructured{nil, {}, {Object: map[string]any{}},
		{Object: map[string]any{"metadata": 7, "spec": make(chan int)}},
		{Object: map[string]any{"metadata": map[string]any{"name": 3, "uid": []any{}}}},
		oracle.Object("", "a", "u1", "1", 1)}
	histories := []streamtest.History{{},
		{Rewinds: []streamtest.Change{{}, {ResourceVersion: "0"}, {ResourceVersion: "x"}}},
		oracle.History(t, restored)}
	for _, o := range odd {
		histories = append(histories,
			streamtest.History{Changes: []streamtest.Change{{}, {Type: watch.Added, Object: o, Epoch: -3},
				{Type: watch.Deleted, Object: o, Epoch: 9, ResourceVersion: "x"}, {Type: watch.Error, Object: o}}})
	}
	for _, h := range histories {
		for _, opts := range []streamtest.CheckOptions{{}, fromNow, after5, from4, twoSpaces,
			{From: &checkpoint.Position{}}, {After: "x"}, {Namespaces: []string{"", "a", "a"}}} {
			for _, o := range odd {
				for _, kind := range []stream.Type{stream.Added, stream.Modified, stream.Deleted, stream.Bookmark,
					stream.Synced, stream.Gap, "", "PATCHED"} {
					opts.Selected = oracle.Above(0)
					ev := stream.Event{Type: kind, Object: o}
					inferred := ev
					inferred.Inferred = true
					if err := streamtest.Check(h,
						[]stream.Event{{}, ev, inferred, {Type: stream.Gap}, ev, {Type: stream.Synced}, ev, inferred,
							ev}, &opts); err == nil {
						t.Fatalf("%v was accepted", ev)
					}
				}
			}
		}
	}
}

// overtaken has objects that change several times, one that comes and goes, and one that is removed and replaced.
const overtaken = `ADDED a(u1)@1; ADDED b(u2)@2; MODIFIED a(u1)@3; ADDED c(u3)@4; MODIFIED b(u2)@5; DELETED c(u3)@6
	MODIFIED a(u1)@7; DELETED b(u2)@8; ADDED b(u4)@9; MODIFIED a(u1)@10`

func TestCheckLatest(t *testing.T) {
	latest := streamtest.CheckOptions{Latest: true, Complete: true}
	resumed2 := latest
	resumed2.From = positionAt("2", known("a", "u1", "7"), known("b", "u2", "2"), known("c", "u3", ""))
	const from2 = "ADDED a(u1)@1; ADDED b(u2)@2; SYNCED @2; "
	tests := []struct {
		why    string
		opts   streamtest.CheckOptions
		events string
		want   string
	}{
		{"the newest state of each object", latest,
			from2 + "MODIFIED a(u1)@10 coalesced 2; DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9", ""},
		{"no state was coalesced", latest,
			from2 + "MODIFIED a(u1)@3; ADDED c(u3)@4; MODIFIED b(u2)@5; DELETED c(u3)@6; MODIFIED a(u1)@7; " +
				"DELETED b(u2)@8; ADDED b(u4)@9; MODIFIED a(u1)@10",
			""},
		{"only the events of one object are in order", latest,
			from2 + "MODIFIED b(u2)@5; ADDED c(u3)@4; DELETED c(u3)@6; MODIFIED a(u1)@10 coalesced 2; " +
				"DELETED b(u2)@8; ADDED b(u4)@9",
			""},
		{"a BOOKMARK, with newer states before it", latest,
			from2 + "MODIFIED a(u1)@10 coalesced 2; MODIFIED b(u2)@5; BOOKMARK @5; DELETED b(u2)@8; ADDED b(u4)@9", ""},
		{"a BOOKMARK between the states of an object that came and went", latest,
			from2 + "MODIFIED a(u1)@10 coalesced 2; DELETED b(u2)@8 coalesced 1; BOOKMARK @5; ADDED b(u4)@9", ""},
		{"a GAP, after all events that precede it", latest,
			from2 + "MODIFIED a(u1)@7 coalesced 1; MODIFIED b(u2)@5; GAP expired 7..10; MODIFIED a(u1)@10 inferred; " +
				"DELETED b(u2)@5 inferred; ADDED b(u4)@9 inferred; SYNCED @10",
			""},
		{"a restarted snapshot", latest,
			"ADDED a(u1)@7 inferred coalesced 1; ADDED b(u4)@9; SYNCED @9; MODIFIED a(u1)@10", ""},
		{"a removal that coalesces a difference", latest,
			from2 + "GAP expired 2..; MODIFIED a(u1)@7 inferred; DELETED b(u2)@5 inferred coalesced 1; " +
				"ADDED b(u4)@9 inferred; SYNCED @9; MODIFIED a(u1)@10",
			""},
		{"from: an object acked ahead is not delivered again", resumed2,
			"ADDED c(u3)@4; DELETED c(u3)@6; DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9; MODIFIED a(u1)@10", ""},
		{"from: a pending object was removed", resumed2,
			"DELETED c(u3)@6 coalesced 1; DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9; MODIFIED a(u1)@10", ""},

		{"a BOOKMARK after an older state", latest, from2 + "MODIFIED a(u1)@3; BOOKMARK @7", complete},
		{"a BOOKMARK after a removal that is missing", latest, from2 + "MODIFIED a(u1)@10 coalesced 2; BOOKMARK @8",
			removed},
		{"a BOOKMARK goes back", latest, from2 + "BOOKMARK @5", complete},
		{"GAP.From is later than the delivered events", latest, from2 + "MODIFIED a(u1)@3; GAP expired 7..", complete},
		{"the newest state is missing", latest,
			from2 + "MODIFIED a(u1)@7 coalesced 1; DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9", complete},
		{"a replacement without the removal", latest, from2 + "MODIFIED a(u1)@10 coalesced 2; ADDED b(u4)@9", removed},
		{"an older state after a newer one", latest,
			from2 + "MODIFIED a(u1)@7 coalesced 1; MODIFIED a(u1)@3; MODIFIED a(u1)@10; DELETED b(u2)@8 coalesced 1; " +
				"ADDED b(u4)@9",
			ordered},
		{"a state twice", latest,
			from2 + "MODIFIED a(u1)@7 coalesced 1; MODIFIED a(u1)@7; MODIFIED a(u1)@10; DELETED b(u2)@8 coalesced 1; " +
				"ADDED b(u4)@9",
			unique},
		{"ADDED of a known object", latest, from2 + "ADDED a(u1)@10 coalesced 2", truthful},
		{"MODIFIED of an unknown object", latest, from2 + "MODIFIED c(u3)@4", truthful},
		{"DELETED of an object that was never delivered", latest, from2 + "DELETED c(u3)@6 coalesced 1", truthful},
		{"a state that never existed", latest, from2 + "MODIFIED a(u1)@8", truthful},
		{"content of another state", latest, from2 + "MODIFIED a(u1)@10 =7 coalesced 2", truthful},
		{"a coalesced BOOKMARK", latest, from2 + "BOOKMARK @2 coalesced 1", truthful},
		{"no coalesced event without Latest", streamtest.CheckOptions{}, from2 + "MODIFIED a(u1)@3 coalesced 1",
			truthful},
		{"no missing event without Latest", whole, from2 + "MODIFIED a(u1)@7; ADDED c(u3)@4", complete},
		{"from: an object acked ahead is delivered again", resumed2, "MODIFIED a(u1)@3", resumed},
		{"from: the state of a pending object is missing", resumed2,
			"DELETED b(u2)@8 coalesced 1; ADDED b(u4)@9; MODIFIED a(u1)@10", resumed},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			oracle.WantBroken(t, streamtest.Check(oracle.History(t, overtaken), oracle.Events(t, tt.events), &tt.opts),
				tt.want)
		})
	}
}
