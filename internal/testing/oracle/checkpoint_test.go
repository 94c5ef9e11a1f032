package oracle_test

import (
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestCheckCheckpoint(t *testing.T) {
	at := func(rv string, objects string) *checkpoint.Position {
		p := &checkpoint.Position{ResourceVersions: map[string]string{"": rv}}
		for _, ev := range oracle.Events(t, objects) {
			p.Objects = append(p.Objects,
				checkpoint.Object{Namespace: ev.Object.GetNamespace(), Name: ev.Object.GetName(),
					UID: ev.Object.GetUID(), ResourceVersion: ev.ResourceVersion})
		}
		return p
	}
	const events = "ADDED a(u1)@3; ADDED b(u2)@5; SYNCED @9; MODIFIED a(u1)@12; DELETED b(u2)@14; GAP expired 14.."
	const rewound = "SYNCED @90; GAP rewound 90..50; SYNCED @50; ADDED a(u1)@60"
	const coalesced = "ADDED a(u1)@3; SYNCED @3; MODIFIED a(u1)@9 coalesced 1; ADDED b(u2)@6"
	const a, b, a12, a60 = "ADDED a(u1)@3;", "ADDED b(u2)@5;", "ADDED a(u1)@12;", "ADDED a(u1)@60"
	const differences = "MODIFIED a(u1)@12 inferred; ADDED c(u3)@9 inferred; DELETED b(u2)@5 inferred; SYNCED @14"
	untilSynced := streamtest.CheckOptions{UntilSynced: true}
	for _, tc := range []struct {
		why, events   string
		before, after *checkpoint.Position
		acked         string // "x" for each event that was acked, "-" for others
		opts          streamtest.CheckOptions
		want          string
	}{
		{"nothing is stored", events, nil, nil, "", streamtest.CheckOptions{}, ""},
		{"the last commits are lost", events, nil, nil, "xxxxx", streamtest.CheckOptions{}, ""},
		{"unchanged", events, at("2", "ADDED z(u9)@1"), at("2", "ADDED z(u9)@1"), "", streamtest.CheckOptions{}, ""},
		{"within a snapshot, in any order", events, nil, at("", b), "-x", streamtest.CheckOptions{}, ""},
		{"the whole snapshot", events, nil, at("9", a+b), "xxx", streamtest.CheckOptions{}, ""},
		{"SYNCED changes nothing", events, nil, at("9", a+b), "xx", streamtest.CheckOptions{}, ""},
		{"at the version of a bookmark that was not delivered", events, nil, at("11", a+b), "xxx",
			streamtest.CheckOptions{}, ""},
		{"an entry that was never acked", events, nil, at("9", a+b+"ADDED c(u3)@"), "xxx", streamtest.CheckOptions{},
			""},
		{"the GAP is acked, and a part of the snapshot that follows", events, nil, at("", a12), "xxxxxx",
			streamtest.CheckOptions{}, ""},
		{"before a rewind", rewound, nil, at("90", ""), "x", streamtest.CheckOptions{}, ""},
		{"after a rewind", rewound, nil, at("50", ""), "xxx", streamtest.CheckOptions{}, ""},
		{"after a rewind, a bookmark may have reached the old version", rewound, nil, at("90", a60), "xxxx",
			streamtest.CheckOptions{}, ""},
		{"a coalesced event is newer than its place", coalesced, nil, at("5", "ADDED a(u1)@9"), "xxx",
			streamtest.CheckOptions{Latest: true}, ""},
		{"a new object before the end of the old one is acked",
			"ADDED c(u4)@9; DELETED c(u3)@2 inferred; ADDED c(u5)@7",
			at("", "ADDED c(u3)@2"), at("", "ADDED c(u3)@2; ADDED c(u5)@7"), "--x", streamtest.CheckOptions{}, ""},
		{"an unwatched namespace, stored by another run", "",
			&checkpoint.Position{ResourceVersions: map[string]string{"y": "9"}},
			&checkpoint.Position{ResourceVersions: map[string]string{"y": "9"}}, "",
			streamtest.CheckOptions{Namespaces: []string{"x"}}, ""},
		{"Now, of two namespaces: x is within a snapshot, and y is at a version",
			"GAP expired 3.. in x; ADDED x/a(u1)@5 in x", nil, &checkpoint.Position{
				ResourceVersions: map[string]string{"y": "4"}, Objects: at("", "ADDED x/a(u1)@5").Objects}, "xx",
			streamtest.CheckOptions{Now: true, Namespaces: []string{"x", "y"}}, ""},
		{"After a version, with an object that was not delivered", "MODIFIED a(u1)@7", nil,
			at("6", "ADDED z(u9)@2"), "", streamtest.CheckOptions{After: "5"}, ""},
		{"Now: SYNCED's version is committed before SYNCED is delivered", "SYNCED @9; ADDED a(u1)@12", nil, at("9", ""),
			"  ", streamtest.CheckOptions{Now: true}, ""},
		{"Now, with an object that was not delivered", events, nil, at("9", a+b+"ADDED z(u9)@2"), "xxx",
			streamtest.CheckOptions{Now: true}, ""},
		{"Now counts only without a position to resume from", events, at("2", ""), at("2", ""), "",
			streamtest.CheckOptions{Now: true}, ""},

		{"until SYNCED: before the snapshot", differences, at("4", a+b), at("4", a+b), "-x", untilSynced, ""},
		{"until SYNCED: within the snapshot", differences, at("4", a+b), at("", a+b+"ADDED c(u3)@9"), "-xxx",
			untilSynced, ""},
		{"until SYNCED: after it", differences, at("4", a+b), at("14", a12+"ADDED c(u3)@9"), "xxxx", untilSynced, ""},
		{"until SYNCED: a version before that of SYNCED", differences, at("4", a+b), at("9", a+b), "x", untilSynced,
			`1 the checkpoint: breaks "durable": at 9: no event has such a version`},
		{"until SYNCED: an unacked event is passed", differences, at("4", a+b), at("14", a12+"ADDED c(u3)@9"), "xx-x",
			untilSynced,
			`2 DELETED b@5 inferred: breaks "acknowledged": it was not acked, and the checkpoint (at 14) passes it`},
		{"until SYNCED: half a commit", differences, at("4", a+b), at("4", a), "xxxx", untilSynced,
			`4 the checkpoint: breaks "durable": at 4: /b (u2) is missing: not the state before the snapshot`},
		{"within a snapshot, although the run goes on where it stood", differences, at("4", a+b),
			at("", a+b+"ADDED c(u3)@9"), "-xxx", streamtest.CheckOptions{},
			`0 the checkpoint: breaks "durable": within a snapshot: no event has such a version`},

		{"a bookmark after an unacked SYNCED", events, nil, at("10", a+b), "xx", streamtest.CheckOptions{},
			`2 SYNCED @9: breaks "acknowledged": it was not acked, and the checkpoint (at 10) passes it`},
		{"an unacked live event is passed", events, nil, at("14", a12), "xxx-x", streamtest.CheckOptions{},
			`3 MODIFIED a@12: breaks "acknowledged": it was not acked, and the checkpoint (at 14) passes it`},
		{"an unacked GAP is passed", events, nil, at("", a12), "xxxxx", streamtest.CheckOptions{},
			`5 GAP expired 14..: breaks "acknowledged": ` +
				`it was not acked, and the checkpoint (within a snapshot) passes it`},
		{"Now, before SYNCED: nothing may be committed", events, nil, at("", a12), "xx",
			streamtest.CheckOptions{Now: true},
			`2 SYNCED @9: breaks "acknowledged": it was not acked, and the checkpoint (within a snapshot) passes it`},
		{"a SYNCED after a rewind is passed", rewound, nil, at("51", ""), "xx", streamtest.CheckOptions{},
			`2 SYNCED @50: breaks "acknowledged": it was not acked, and the checkpoint (at 51) passes it`},
		{"the place of an unacked coalesced event is passed", coalesced, nil, at("7", "ADDED a(u1)@9; ADDED b(u2)@6"),
			"xx-x", streamtest.CheckOptions{Latest: true},
			`2 MODIFIED a@9 coalesced 1: breaks "acknowledged": it was not acked, and the checkpoint (at 7) passes it`},

		{"another state of the object exists at 12", events, nil, at("12", a+b), "xxx", streamtest.CheckOptions{},
			`3 the checkpoint: breaks "durable": at 12: /a (u1) is stored at 3: not the state before 4 DELETED b@14`},
		{"half a commit", events, nil, at("9", b), "xxxxxx", streamtest.CheckOptions{},
			`6 the checkpoint: breaks "durable": at 9: /a (u1) is missing: not the state before 2 SYNCED @9`},
		{"no such version", events, nil, at("4", a), "xxxxxx", streamtest.CheckOptions{},
			`6 the checkpoint: breaks "durable": at 4: no event has such a version`},
		{"the object is newer than the version", rewound, nil, at("55", a60), "xxxx", streamtest.CheckOptions{},
			`4 the checkpoint: breaks "durable": at 55: /a (u1) is stored at 60: not the state before 3 ADDED a@60`},
		{"older than the version of After", "", nil,
			&checkpoint.Position{ResourceVersions: map[string]string{"x": "4"}}, "",
			streamtest.CheckOptions{After: "5", Namespaces: []string{"x"}},
			`0 the checkpoint: breaks "durable": at 4 in x: no event has such a version`},
		{"the checkpoint is lost", events, at("2", ""), nil, "", streamtest.CheckOptions{},
			`6 the checkpoint: breaks "durable": the checkpoint was lost`},
		{"an unwatched namespace has changed", "", nil,
			&checkpoint.Position{Objects: []checkpoint.Object{{Namespace: "y", Name: "q", UID: "u",
				ResourceVersion: "1"}}}, "",
			streamtest.CheckOptions{Namespaces: []string{"x"}},
			`0 the checkpoint: breaks "durable": a namespace that is not watched has changed`},
	} {
		t.Run(tc.why, func(t *testing.T) {
			acked := func(i int) bool { return i < len(tc.acked) && tc.acked[i] == 'x' }
			err := oracle.CheckCheckpoint(oracle.CheckpointRun{Before: tc.before, After: tc.after,
				Events: oracle.Events(t, tc.events), Acked: acked, Options: tc.opts})
			got := ""
			if err != nil {
				got = strings.TrimSpace(err.Error())
			}
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// Of a store that keeps no objects, only the version is compared.
func TestCheckCheckpointOfPositionsOnly(t *testing.T) {
	events := oracle.Events(t, "ADDED a(u1)@3; ADDED b(u2)@5; SYNCED @9; MODIFIED a(u1)@12; DELETED b(u2)@14")
	after := &checkpoint.Position{ResourceVersions: map[string]string{"": "12"}, Partial: true}
	for _, tc := range []struct {
		why    string
		acked  int
		before *checkpoint.Position
		want   string
	}{
		{"the version is that of the last acked event", 4, nil, ""},
		{"the version has grown since the last run", 4,
			&checkpoint.Position{ResourceVersions: map[string]string{"": ""}, Partial: true}, ""},
		{"the version passes an event that was not acked", 3, nil,
			`3 MODIFIED a@12: breaks "acknowledged": it was not acked, and the checkpoint (at 12) passes it`},
	} {
		run := oracle.CheckpointRun{Before: tc.before, After: after, Events: events, PositionsOnly: true,
			Acked: func(i int) bool { return i < tc.acked }}
		got := ""
		if err := oracle.CheckCheckpoint(run); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.why, got, tc.want)
		}
		run.PositionsOnly = false
		if oracle.CheckCheckpoint(run) == nil {
			t.Errorf("%s: accepted of a store that keeps objects", tc.why)
		}
	}
}
