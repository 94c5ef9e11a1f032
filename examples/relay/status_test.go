package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

func TestReport(t *testing.T) {
	unit := engine.Unit{Cluster: "c", Resource: "pods"}
	owned := engine.UnitStatus{Unit: unit, State: "Streaming", Synced: true, Epoch: 2}
	position := engine.Entry{Unit: unit, Position: engine.Position{Owner: "a", Epoch: 2, ResourceVersion: "7"}}
	unsynced, failing := owned, owned
	unsynced.Synced, failing.Problem = false, "forbidden"
	lost := engine.UnitStatus{
		Unit: unit, State: "Unowned", Epoch: 2, ResourceVersion: "7", Problem: "a has ended without a word",
	}
	for _, test := range []struct {
		why     string
		members []engine.Member
		entries []engine.Entry
		want    report
	}{
		{
			"all is well", []engine.Member{{ID: "a", Units: []engine.UnitStatus{owned}}}, []engine.Entry{position},
			report{Units: []row{{owned, "a"}}, Members: []string{"a"}},
		},
		{
			"nobody runs, and the last owner released its unit", nil, []engine.Entry{{Unit: unit}},
			report{Units: []row{}, Members: []string{}, Problems: []string{"no relay runs"}},
		},
		{
			"the owner is no member", []engine.Member{{ID: "b"}}, []engine.Entry{position},
			report{
				Units: []row{{lost, ""}}, Members: []string{"b"},
				Problems: []string{"c/pods: a has ended without a word"},
			},
		},
		{
			"who waits does not hide the owner", []engine.Member{
				{ID: "a", Units: []engine.UnitStatus{owned}}, {ID: "b", Waiting: []engine.UnitStatus{failing}},
			}, []engine.Entry{position},
			report{Units: []row{{owned, "a"}}, Members: []string{"a", "b"}},
		},
		{
			"a snapshot is not complete", []engine.Member{{ID: "a", Units: []engine.UnitStatus{unsynced}}}, nil,
			report{Units: []row{{unsynced, "a"}}, Members: []string{"a"}, Problems: []string{"c/pods is not synced"}},
		},
		{
			"problems of units and of members", []engine.Member{
				{ID: "a", Units: []engine.UnitStatus{failing}, Problems: []string{"no API"}},
			}, nil,
			report{
				Units: []row{{failing, "a"}}, Members: []string{"a"},
				Problems: []string{"a: no API", "c/pods: forbidden"},
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
