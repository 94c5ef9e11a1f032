package stream

import (
	"errors"
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
	s    state
	in   input
	want state
	out  []output
	why  string
}

func check(t *testing.T, rows []transition) {
	equal := cmp.Options{
		cmp.AllowUnexported(listing{}, connecting{}, replaying{}, streaming{}, probing{}, waiting{}, stopped{}, memory{}, rules{}, gap{},
			tellGap{}, tellPage{}, endList{}, tellInitial{}, keepInitial{}, snapshot{}, tellSynced{}, tellFrame{}, tellBookmark{}, noInitial{}),
		cmp.FilterValues(func(a, b error) bool { return a != nil && b != nil }, cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })),
		cmpopts.EquateEmpty(),
	}
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			before := fmt.Sprintf("%#v", tt.s)
			got, out := step(tt.s, tt.in)
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
		r    rules
		b    beginning
		want state
		why  string
	}{
		{rules{}, beginning{}, listing{}, "pages, where streaming lists are not wanted or not there"},
		{rules{initial: true}, beginning{}, connecting{memory: first(initial), initial: true}, "the snapshot comes with the watch"},
		{rules{quiet: true, initial: true}, beginning{}, connecting{memory: first(quiet, initial), initial: true}, "what is not told must still be known"},
		{rules{quiet: true, lossy: true, initial: true}, beginning{}, probing{memory: first(quiet, lossy, initial), owed: true}, "where nothing is known, a version is all it takes"},
		{rules{quiet: true, lossy: true, blind: true}, beginning{}, listing{memory: first(quiet, lossy, blind)}, "client-go's fake lists as any"},
		{rules{partial: true, initial: true}, beginning{rv: "7"}, probing{memory: first(partial, initial, rv("7")), owed: true}, "the server may have gone back behind it"},
		{rules{blind: true}, beginning{rv: "7"}, connecting{memory: first(blind, rv("7")), owed: true}, "client-go's fake has no past"},
		{rules{initial: true}, beginning{floor: "7"}, connecting{memory: first(initial, floor("7")), initial: true}, "the rest of a snapshot, which must not be older than what was told of it"},
		{rules{initial: true}, beginning{moved: true, from: "5", floor: "7"}, listing{memory: first(initial, floor("7"), relists(1), gapped(GapScope, "5"))}, "another scope was watched before: a GAP, whose version a list says first"},
		{rules{initial: true, fail: true}, beginning{moved: true, from: "5", floor: "7"}, stopped{&GapError{Reason: GapScope, From: "5", Err: errMoved}}, "likewise, to one who would rather fail"},
		{rules{lossy: true, unclean: true}, beginning{begun: true, moved: true, from: "5"}, listing{memory: first(lossy, unclean, relists(1), gapped(GapScope, "5"))}, "also where nobody knows what was told"},
		{rules{lossy: true}, beginning{begun: true}, listing{memory: first(lossy, begun)}, "the rest of a snapshot, of which nobody knows what it is: a GAP"},
		{rules{lossy: true, fail: true}, beginning{begun: true}, stopped{&GapError{Reason: GapRestarted}}, "likewise, to one who would rather fail"},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, start(tt.r, tt.b), cmp.AllowUnexported(listing{}, connecting{}, probing{}, stopped{}, memory{}, rules{}, gap{}), sameErrors); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

func TestWaiting(t *testing.T) {
	next := connecting{memory: at("5")}
	check(t, []transition{
		{"over", waiting{attempt: 2, next: next}, elapsed{}, next, nil, "on as decided"},
		{"given up", waiting{attempt: 2, cause: errServer, next: next}, gaveUp{time.Minute},
			stopped{&GaveUpError{time.Minute, errServer}}, nil, "the caller has waited enough"},
	})
}

func TestEveryPair(t *testing.T) {
	// A pair is either handled or ends the sequence with an error; none panics,
	// and none is passed over.
	fits := map[string]bool{
		"listing page": true, "listing failed": true,
		"connecting opened": true, "connecting failed": true,
		"replaying frame": true, "replaying silent": true, "replaying closed": true,
		"streaming frame": true, "streaming silent": true, "streaming closed": true,
		"probing page": true, "probing failed": true,
		"waiting elapsed": true, "waiting gaveUp": true,
	}
	states := []state{listing{}, connecting{}, replaying{}, streaming{}, probing{}, waiting{next: listing{}}}
	inputs := []input{page{rv: "1"}, opened{}, frame{rv: "9"}, silent{}, closed{}, failed{errServer}, elapsed{}, gaveUp{}, nil}
	tried := 0
	for _, s := range states {
		for _, in := range inputs {
			pair := typeName(s) + " " + typeName(in)
			got, out := step(s, in)
			end, ended := got.(stopped)
			unknown := ended && end.err != nil && !errors.As(end.err, new(*GaveUpError))
			if unknown == fits[pair] {
				t.Errorf("%s: %#v, want handled = %v", pair, got, fits[pair])
			}
			if unknown && len(out) > 0 {
				t.Errorf("%s: a mistake of the driver tells %v", pair, out)
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
		if got, _ := step(stopped{errServer}, in); got != (stopped{errServer}) {
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
