package streamtest

import (
	"strings"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// What the check says, and where.
func TestCheckCheckpoint(t *testing.T) {
	at := func(rv string, objects string) *checkpoint.Position {
		p := &checkpoint.Position{ResourceVersions: map[string]string{"": rv}}
		for _, ev := range eventsOf(t, objects) {
			p.Objects = append(p.Objects, checkpoint.Object{Namespace: ev.Object.GetNamespace(), Name: ev.Object.GetName(),
				UID: ev.Object.GetUID(), ResourceVersion: ev.ResourceVersion})
		}
		return p
	}
	const events = "ADDED a(u1)@3; ADDED b(u2)@5; SYNCED @9; MODIFIED a(u1)@12; DELETED b(u2)@14; GAP expired 14.."
	const rewound = "SYNCED @90; GAP rewound 90..50; SYNCED @50; ADDED a(u1)@60"
	const coalesced = "ADDED a(u1)@3; SYNCED @3; MODIFIED a(u1)@9 coalesced 1; ADDED b(u2)@6"
	const a, b, a12, a60 = "ADDED a(u1)@3;", "ADDED b(u2)@5;", "ADDED a(u1)@12;", "ADDED a(u1)@60"
	for _, tc := range []struct {
		why, events   string
		before, after *checkpoint.Position
		acked         string // by event; those that are left out are not
		opts          CheckOptions
		want          string
	}{
		{"nothing is kept", events, nil, nil, "", CheckOptions{}, ""},
		{"the last commits are lost", events, nil, nil, "xxxxx", CheckOptions{}, ""},
		{"as it was", events, at("2", "ADDED z(u9)@1"), at("2", "ADDED z(u9)@1"), "", CheckOptions{}, ""},
		{"within a snapshot, in any order", events, nil, at("", b), "-x", CheckOptions{}, ""},
		{"all of it", events, nil, at("9", a+b), "xxx", CheckOptions{}, ""},
		{"SYNCED is no change", events, nil, at("9", a+b), "xx", CheckOptions{}, ""},
		{"beyond a bookmark, which is no event", events, nil, at("11", a+b), "xxx", CheckOptions{}, ""},
		{"one that nobody has acked, besides", events, nil, at("9", a+b+"ADDED c(u3)@"), "xxx", CheckOptions{}, ""},
		{"the GAP is acked, and the rest of the snapshot is due", events, nil, at("", a12), "xxxxxx", CheckOptions{}, ""},
		{"versions only", events, nil, at("12", ""), "xxxx", CheckOptions{IndexNone: true}, ""},
		{"before a rewind", rewound, nil, at("90", ""), "x", CheckOptions{}, ""},
		{"in the new past", rewound, nil, at("50", ""), "xxx", CheckOptions{}, ""},
		{"a bookmark may have come so far again", rewound, nil, at("90", a60), "xxxx", CheckOptions{}, ""},
		{"an event that stands for others is newer than its place", coalesced, nil, at("5", "ADDED a(u1)@9"), "xxx", CheckOptions{Latest: true}, ""},
		{"a new object before the end of the old one is acked", "ADDED c(u4)@9; DELETED c(u3)@2 inferred; ADDED c(u5)@7",
			at("", "ADDED c(u3)@2"), at("", "ADDED c(u3)@2; ADDED c(u5)@7"), "--x", CheckOptions{}, ""},
		{"what another run keeps of another namespace", "", &checkpoint.Position{ResourceVersions: map[string]string{"y": "9"}},
			&checkpoint.Position{ResourceVersions: map[string]string{"y": "9"}}, "", CheckOptions{Namespaces: []string{"x"}}, ""},
		{"Now, of two namespaces: x is within a snapshot, and y is at a version",
			"GAP expired 3.. in x; ADDED x/a(u1)@5 in x", nil, &checkpoint.Position{
				ResourceVersions: map[string]string{"y": "4"}, Objects: at("", "ADDED x/a(u1)@5").Objects}, "xx",
			CheckOptions{Now: true, Namespaces: []string{"x", "y"}}, ""},
		{"After a version, with an object that was not delivered", "MODIFIED a(u1)@7", nil,
			at("6", "ADDED z(u9)@2"), "", CheckOptions{After: "5"}, ""},
		{"Now, with an object that was not delivered", events, nil, at("9", a+b+"ADDED z(u9)@2"), "xxx",
			CheckOptions{Now: true}, ""},
		{"Now, which counts for the first run only", events, at("2", ""), at("2", ""), "", CheckOptions{Now: true}, ""},

		{"a bookmark after SYNCED, which is not acked", events, nil, at("10", a+b), "xx", CheckOptions{},
			"2 SYNCED @9: not acknowledged: it was not acked, and the checkpoint (at 10) is beyond it"},
		{"a live event is passed", events, nil, at("14", a12), "xxx-x", CheckOptions{},
			"3 MODIFIED a@12: not acknowledged: it was not acked, and the checkpoint (at 14) is beyond it"},
		{"the GAP has to be delivered again", events, nil, at("", a12), "xxxxx", CheckOptions{},
			"5 GAP expired 14..: not acknowledged: it was not acked, and the checkpoint (within a snapshot) is beyond it"},
		{"versions only, passed", events, nil, at("12", ""), "xxx", CheckOptions{IndexNone: true},
			"3 MODIFIED a@12: not acknowledged: it was not acked, and the checkpoint (at 12) is beyond it"},
		{"Now, before SYNCED: half a beginning is none", events, nil, at("", a12), "xx", CheckOptions{Now: true},
			"2 SYNCED @9: not acknowledged: it was not acked, and the checkpoint (within a snapshot) is beyond it"},
		{"beyond a SYNCED after a rewind", rewound, nil, at("51", ""), "xx", CheckOptions{},
			"2 SYNCED @50: not acknowledged: it was not acked, and the checkpoint (at 51) is beyond it"},
		{"the place of an event that stands for others is passed", coalesced, nil, at("7", "ADDED a(u1)@9; ADDED b(u2)@6"), "xx-x", CheckOptions{Latest: true},
			"2 MODIFIED a@9 coalesced 1: not acknowledged: it was not acked, and the checkpoint (at 7) is beyond it"},

		{"at 12 the object is another one", events, nil, at("12", a+b), "xxx", CheckOptions{},
			"3 the checkpoint: not durable: at 12: /a (u1) is kept at 3: not what had been delivered before 4 DELETED b@14"},
		{"half a commit", events, nil, at("9", b), "xxxxxx", CheckOptions{},
			"6 the checkpoint: not durable: at 9: /a (u1) is missing: not what had been delivered before 2 SYNCED @9"},
		{"no such version", events, nil, at("4", a), "xxxxxx", CheckOptions{},
			"6 the checkpoint: not durable: at 4: it fits no event"},
		{"the object is newer than the version", rewound, nil, at("55", a60), "xxxx", CheckOptions{},
			"4 the checkpoint: not durable: at 55: /a (u1) is kept at 60: not what had been delivered before 3 ADDED a@60"},
		{"older than the version that it began after", "", nil,
			&checkpoint.Position{ResourceVersions: map[string]string{"x": "4"}}, "",
			CheckOptions{After: "5", Namespaces: []string{"x"}},
			"0 the checkpoint: not durable: at 4 in x: it fits no event"},
		{"what was there is gone", events, at("2", ""), nil, "", CheckOptions{}, "6 the checkpoint: not durable: it is gone"},
		{"another namespace has changed", "", nil, &checkpoint.Position{Objects: []checkpoint.Object{{Namespace: "y", Name: "q", UID: "u", ResourceVersion: "1"}}}, "",
			CheckOptions{Namespaces: []string{"x"}}, "0 the checkpoint: not durable: it has changed in a namespace that is not watched"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			acked := func(i int) bool { return i < len(tc.acked) && tc.acked[i] == 'x' }
			err := CheckCheckpoint(CheckpointRun{Before: tc.before, After: tc.after, Events: eventsOf(t, tc.events), Acked: acked, Options: tc.opts})
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
