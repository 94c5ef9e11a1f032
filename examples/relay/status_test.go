package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

const noRelay = "no relay runs, or NATS takes no reports (a full disk does that): see their logs, or /readyz"

func TestReport(t *testing.T) {
	const lease = 15 * time.Second
	unit := engine.Unit{Cluster: "c", Resource: "pods"}
	owned := engine.UnitStatus{Unit: unit, State: "Streaming", Synced: true, Epoch: 2}
	position := engine.Entry{Unit: unit, Position: engine.Position{Owner: "a", Epoch: 2, ResourceVersion: "7"}}
	released := position
	released.Position.Owner = ""
	described := engine.UnitStatus{Unit: unit, Synced: true, Epoch: 2, ResourceVersion: "7"}
	with := func(change func(*engine.UnitStatus)) engine.UnitStatus {
		u := owned
		change(&u)
		return u
	}
	unsynced := with(func(u *engine.UnitStatus) { u.Synced = false })
	failing := with(func(u *engine.UnitStatus) { u.Problem = "forbidden" })
	behind := with(func(u *engine.UnitStatus) { u.Pending, u.Lag = 1, 14*time.Second })
	skipping := with(func(u *engine.UnitStatus) { u.Skipped = 3 })
	taken := engine.UnitStatus{Unit: unit, State: "Waiting", Problem: "being taken"}
	gone := with(func(u *engine.UnitStatus) {
		u.State, u.Synced, u.ResourceVersion, u.Problem = "Unowned", false, "7", "a has ended without a word"
	})
	left := with(func(u *engine.UnitStatus) {
		u.State, u.Synced, u.Problem = "Unowned", false, "a publishes it no more, and nobody has taken it"
	})
	member := func(id string, age time.Duration, units ...engine.UnitStatus) engine.Member {
		return engine.Member{ID: id, Lease: lease, Age: age, Units: units}
	}
	waiting := func(id string, units ...engine.UnitStatus) engine.Member {
		return engine.Member{ID: id, Lease: lease, Waiting: units}
	}
	one := func(id string) []replica { return []replica{{ID: id, Lease: lease}} }
	for _, test := range []struct {
		why     string
		members []engine.Member
		entries []engine.Entry
		want    report
	}{
		{
			"all is well", []engine.Member{member("a", 0, owned)}, []engine.Entry{position},
			report{Units: []row{{owned, "a", 0}}, Members: one("a")},
		},
		{
			"nobody runs, and the last owner released its unit", nil, []engine.Entry{released},
			report{Units: []row{}, Members: []replica{}, Problems: []string{noRelay}},
		},
		{
			"the owner is no member", []engine.Member{member("b", 0)}, []engine.Entry{position},
			report{
				Units: []row{{gone, "", 0}}, Members: one("b"),
				Problems: []string{"c/pods: a has ended without a word"},
			},
		},
		{
			"the owner has not reported for more than its lease", []engine.Member{
				member("a", 20*time.Second, owned), member("b", time.Second),
			}, []engine.Entry{position},
			report{
				Units:    []row{{owned, "a", 20 * time.Second}},
				Members:  []replica{{"a", 20 * time.Second, lease}, {"b", time.Second, lease}},
				Problems: []string{"a has not reported for 20s, which is more than its lease of 15s"},
			},
		},
		{
			"nobody reports", []engine.Member{member("a", 20*time.Second)}, nil,
			report{
				Units: []row{}, Members: []replica{{"a", 20 * time.Second, lease}},
				Problems: []string{
					"a has not reported for 20s, which is more than its lease of 15s", noRelay,
				},
			},
		},
		{
			"a member that still says that it owns a unit, which another one has taken",
			[]engine.Member{waiting("a"), member("b", 0, failing)}, []engine.Entry{position},
			report{Units: []row{{described, "a", 0}}, Members: []replica{{"a", 0, lease}, {"b", 0, lease}}},
		},
		{
			"the owner is still reading what the log has of a unit", []engine.Member{waiting("a", taken)},
			[]engine.Entry{position},
			report{Units: []row{{taken, "a", 0}}, Members: one("a"), Problems: []string{"c/pods: being taken"}},
		},
		{
			"a member says that it owns a unit, and the position says that nobody does",
			[]engine.Member{member("a", 0, owned)}, []engine.Entry{released},
			report{
				Units: []row{{left, "", 0}}, Members: one("a"),
				Problems: []string{"c/pods: a publishes it no more, and nobody has taken it"},
			},
		},
		{
			"who waits does not hide the owner", []engine.Member{member("a", 0, owned), waiting("b", failing)},
			[]engine.Entry{position},
			report{Units: []row{{owned, "a", 0}}, Members: []replica{{"a", 0, lease}, {"b", 0, lease}}},
		},
		{
			"a snapshot is not complete", []engine.Member{member("a", 0, unsynced)}, []engine.Entry{position},
			report{Units: []row{{unsynced, "a", 0}}, Members: one("a"), Problems: []string{"c/pods is not synced"}},
		},
		{
			"a unit was not behind by a lease when its owner reported, and is now",
			[]engine.Member{member("a", 2*time.Second, behind)}, []engine.Entry{position},
			report{
				Units:    []row{{behind, "a", 2 * time.Second}},
				Members:  []replica{{"a", 2 * time.Second, lease}},
				Problems: []string{"c/pods is behind by 16s, which is more than the lease of 15s"},
			},
		},
		{
			"events are skipped", []engine.Member{member("a", 0, skipping)}, []engine.Entry{position},
			report{
				Units: []row{{skipping, "a", 0}}, Members: one("a"),
				Problems: []string{"c/pods: 3 events are skipped: the log of a says which"},
			},
		},
		{
			"problems of units and of members", []engine.Member{{
				ID: "a", Lease: lease, Units: []engine.UnitStatus{failing}, Problems: []string{"no API"},
				Refused: "insufficient resources",
			}}, []engine.Entry{position},
			report{
				Units: []row{{failing, "a", 0}}, Members: one("a"),
				Problems: []string{
					"a: no API", "a: the engine does not accept messages: insufficient resources", "c/pods: forbidden",
				},
			},
		},
	} {
		t.Run(test.why, func(t *testing.T) {
			if d := cmp.Diff(test.want, reportOf(test.members, test.entries)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
