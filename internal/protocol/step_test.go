package protocol

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// transition is one row of the protocol's tables.
type transition struct {
	name string
	s    State
	in   Input
	want State
	out  []Output
	why  string
}

func check(t *testing.T, rows []transition) {
	equal := cmp.Options{
		cmp.AllowUnexported(Listing{}, Connecting{}, Replaying{}, Streaming{}, Probing{}, Waiting{}, Memory{}, place{}, streaks{}),
		cmp.FilterValues(func(a, b error) bool { return a != nil && b != nil }, cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })),
		cmpopts.EquateEmpty(),
	}
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			before := fmt.Sprintf("%#v", tt.s)
			got, out := Step(tt.s, tt.in)
			if diff := cmp.Diff(tt.want, got, equal); diff != "" {
				t.Errorf("state: %s (-want +got):\n%s", tt.why, diff)
			}
			if diff := cmp.Diff(tt.out, out, equal); diff != "" {
				t.Errorf("outputs: %s (-want +got):\n%s", tt.why, diff)
			}
			if after := fmt.Sprintf("%#v", tt.s); before != after {
				t.Errorf("step changed the state it was given:\n%s\n%s", before, after)
			}
		})
	}
}

// sameErrors compares errors that are not of this package by identity.
var sameErrors = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Err" }, cmp.Comparer(func(a, b error) bool { return a == b }))

func TestStart(t *testing.T) {
	tests := []struct {
		r    Rules
		b    Beginning
		want State
		why  string
	}{
		{Rules{}, Beginning{}, Listing{}, "pages, where streaming lists are not wanted or not there"},
		{Rules{Streamed: true}, Beginning{}, Connecting{Memory: unsynced(streamed), streamed: true}, "the snapshot comes with the watch"},
		{Rules{Quiet: true, Streamed: true}, Beginning{}, Connecting{Memory: unsynced(quiet, streamed), streamed: true}, "what is not told must still be known"},
		{Rules{Quiet: true, NoIndex: true, Streamed: true}, Beginning{}, Probing{Memory: unsynced(quiet, noIndex, streamed), pendingSynced: true}, "where nothing is known, a version is all it takes"},
		{Rules{Quiet: true, NoIndex: true, NoProbe: true}, Beginning{}, Listing{Memory: unsynced(quiet, noIndex, noProbe)}, "client-go's fake lists as any"},
		{Rules{Partial: true, Streamed: true}, Beginning{Version: "7"}, Probing{Memory: unsynced(partial, streamed, rv("7")), pendingSynced: true}, "the server may have gone back behind it"},
		{Rules{NoProbe: true}, Beginning{Version: "7"}, Connecting{Memory: unsynced(noProbe, rv("7")), pendingSynced: true}, "client-go's fake has no past"},
		{Rules{Streamed: true}, Beginning{Minimum: "7"}, Connecting{Memory: unsynced(streamed, minimum("7")), streamed: true}, "the rest of a snapshot, which must not be older than what was told of it"},
		{Rules{Streamed: true}, Beginning{Moved: true, From: "5", Minimum: "7"}, Listing{Memory: unsynced(streamed, minimum("7"), relists(1), gapped(GapScope, "5"))}, "another scope was watched before: a GAP, whose version a list says first"},
		{Rules{Streamed: true, FailOnGap: true}, Beginning{Moved: true, From: "5", Minimum: "7"}, Stopped{Gap: &Gap{GapScope, "5"}, Err: errScope}, "likewise, to one who would rather fail"},
		{Rules{NoIndex: true, Unclean: true}, Beginning{Begun: true, Moved: true, From: "5"}, Listing{Memory: unsynced(noIndex, unclean, relists(1), gapped(GapScope, "5"))}, "also where nobody knows what was told"},
		{Rules{NoIndex: true}, Beginning{Begun: true}, Listing{Memory: unsynced(noIndex, begun)}, "the rest of a snapshot, of which nobody knows what it is: a GAP"},
		{Rules{NoIndex: true, FailOnGap: true}, Beginning{Begun: true}, Stopped{Gap: &Gap{GapRestarted, ""}}, "likewise, to one who would rather fail"},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Start(tt.r, tt.b), cmp.AllowUnexported(Listing{}, Connecting{}, Probing{}, Waiting{}, Memory{}, place{}, streaks{}), sameErrors); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

func TestWaiting(t *testing.T) {
	next := Connecting{Memory: synced("5")}
	check(t, []transition{
		{"over", Waiting{Attempt: 2, next: next}, Elapsed{}, next, nil, "on as decided"},
		{"given up", Waiting{Attempt: 2, Cause: errServer, next: next}, GaveUp{time.Minute},
			Stopped{Err: errServer.Err, GaveUp: GaveUp{time.Minute}}, nil, "the caller has waited enough"},
	})
}

func TestEveryPair(t *testing.T) {
	// A pair is either handled or ends the sequence with an error; none panics,
	// and none is passed over.
	fits := map[string]bool{
		"Listing Page": true, "Listing Failed": true,
		"Connecting Opened": true, "Connecting Failed": true,
		"Replaying Frame": true, "Replaying Silent": true, "Replaying Closed": true,
		"Streaming Frame": true, "Streaming Silent": true, "Streaming Closed": true,
		"Probing Page": true, "Probing Failed": true,
		"Waiting Elapsed": true, "Waiting GaveUp": true,
	}
	states := []State{Listing{}, Connecting{}, Replaying{}, Streaming{}, Probing{}, Waiting{next: Listing{}}}
	inputs := []Input{Page{Version: "1"}, Opened{}, Frame{Version: "9"}, Silent{}, Closed{}, Failed{errServer}, Elapsed{}, GaveUp{}, nil}
	tried := 0
	for _, s := range states {
		for _, in := range inputs {
			pair := typeName(s) + " " + typeName(in)
			got, out := Step(s, in)
			end, ended := got.(Stopped)
			unknown := ended && end.Err != nil && end.GaveUp == GaveUp{}
			if unknown == fits[pair] {
				t.Errorf("%s: %#v, want handled = %v", pair, got, fits[pair])
			}
			if unknown && len(out) > 0 {
				t.Errorf("%s: a mistake of the driver emits %v", pair, out)
			}
			if fits[pair] {
				tried++
			}
		}
	}
	if tried != len(fits) {
		t.Errorf("%d of the %d pairs were tried", tried, len(fits))
	}
	for _, in := range inputs {
		if got, _ := Step(Stopped{Err: errServer.Err}, in); got != (Stopped{Err: errServer.Err}) {
			t.Errorf("%T moved a sequence that has ended: %#v", in, got)
		}
	}
}

func typeName(v any) string {
	if v == nil {
		return "nil"
	}
	return reflect.TypeOf(v).Name()
}
