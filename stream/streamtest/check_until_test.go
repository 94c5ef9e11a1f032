package streamtest_test

import (
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestCheckUntilSynced: a run until SYNCED that resumes delivers the differences without GAP, and nothing else.
func TestCheckUntilSynced(t *testing.T) {
	until := func(from *checkpoint.Position) streamtest.CheckOptions {
		return streamtest.CheckOptions{Complete: true, UntilSynced: true, From: from}
	}
	fresh, at4, partial := until(nil), until(from4.From), until(partial4.From)
	within := until(positionAt("", known("a", "u1", "3")))
	unclean := until(&checkpoint.Position{ResourceVersions: map[string]string{"": "4"}, Objects: from4.From.Objects,
		Unclean: true})
	spaced := until(&checkpoint.Position{ResourceVersions: map[string]string{"x": "3", "y": "2"},
		Objects: []checkpoint.Object{{Namespace: "x", Name: "a", UID: "u1", ResourceVersion: "3"},
			{Namespace: "y", Name: "b", UID: "u2", ResourceVersion: "2"}}})
	spaced.Namespaces = []string{"x", "y"}
	stopped := at4
	stopped.Complete = false
	for _, tt := range []struct {
		why, history string
		opts         streamtest.CheckOptions
		events       string
		want         string
	}{
		{"a snapshot", lives, fresh, upTo4, ""},
		{"an interrupted snapshot continues with differences", lives, fresh,
			"ADDED a(u1)@1; ADDED b(u2)@2; MODIFIED a(u1)@3 inferred; ADDED c(u3)@4; SYNCED @4", ""},
		{"the differences", lives, at4, differ4to9, ""},
		{"nothing has changed", lives, at4, "SYNCED @4", ""},
		{"what happens after SYNCED is for the next run", lives, at4,
			"ADDED d(u4)@6 inferred; DELETED b(u2)@2 inferred; SYNCED @6", ""},
		{"it is stopped before", lives, stopped, "DELETED b(u2)@2 inferred", ""},
		{"a GAP that happens meanwhile", lives, at4,
			"MODIFIED a(u1)@9 inferred; GAP expired 4..9; ADDED d(u5)@8 inferred; DELETED b(u2)@2 inferred; SYNCED @9",
			""},
		{"the position may lack objects", lives, partial,
			"GAP restarted 4..9 history lost; ADDED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", ""},
		{"the position may lack what was delivered", lives, unclean,
			"GAP restarted 4..9 history lost; " + differ4to9, ""},
		{"the position is within a snapshot", lives, within,
			"GAP restarted ..4; ADDED b(u2)@2 inferred; ADDED c(u3)@4 inferred; SYNCED @4", ""},
		{"several namespaces", spaces, spaced,
			"MODIFIED y/b(u2)@4 inferred in y; DELETED x/a(u1)@3 inferred in x; SYNCED ", ""},

		{"without the option", lives, from4, differ4to9, announced},
		{"an ADDED that is not inferred", lives, at4,
			"MODIFIED a(u1)@9 inferred; ADDED d(u5)@8; DELETED b(u2)@2 inferred; SYNCED @9", announced},
		{"a change of the server", lives, at4, "DELETED b(u2)@5; SYNCED @5", announced},
		{"BOOKMARK before SYNCED", lives, at4, "BOOKMARK @4; SYNCED @4", announced},
		{"it does not reach SYNCED", lives, at4, "DELETED b(u2)@2 inferred", announced},
		{"it goes on after SYNCED", lives, at4, "SYNCED @4; " + theRest, announced},
		{"a snapshot goes on after SYNCED", lives, fresh, upTo4 + "BOOKMARK @4", announced},
		{"a known object is delivered again", lives, at4, "ADDED c(u3)@4 inferred; " + differ4to9, resumed},
		{"a removal is missing", lives, at4, "MODIFIED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", resumed},
		{"a new object is missing", lives, at4,
			"MODIFIED a(u1)@9 inferred; DELETED b(u2)@2 inferred; SYNCED @9", resumed},
		{"an object that came and went", lives, at4, "ADDED d(u4)@6 inferred; " + differ4to9, removed},
		{"an older state", lives, at4,
			"MODIFIED a(u1)@1 inferred; ADDED d(u5)@8 inferred; DELETED b(u2)@2 inferred; SYNCED @9", monotonic},
		{"SYNCED before the position", lives, at4, "SYNCED @3", monotonic},
		{"the position may lack objects, and no GAP says so", lives, partial,
			"ADDED a(u1)@9 inferred; ADDED d(u5)@8 inferred; SYNCED @9", announced},
		{"the position may lack what was delivered, and no GAP says so", lives, unclean, differ4to9, announced},
		{"... and GAP does not say that history is lost", lives, unclean,
			"GAP restarted 4..9; " + differ4to9, announced},
		{"the position is within a snapshot, and no GAP says so", lives, within,
			"ADDED b(u2)@2 inferred; ADDED c(u3)@4 inferred; SYNCED @4", announced},
		{"a change in one namespace is missing", spaces, spaced,
			"DELETED y/b(u2)@2 inferred in y; DELETED x/a(u1)@3 inferred in x; SYNCED ", truthful},
	} {
		t.Run(tt.why, func(t *testing.T) {
			oracle.WantBroken(t, streamtest.Check(oracle.History(t, tt.history), oracle.Events(t, tt.events), &tt.opts),
				tt.want)
		})
	}
}
