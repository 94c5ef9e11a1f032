package protocol

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// transition is one row of the tables: in a situation, a rule takes a State and an Input to another State and Outputs.
type transition struct {
	name, why string
	from      State
	in        Input
	to        State
	out       []output
}

// check checks transitions, without what the State knows about the server (see checkAll) and where the watch began.
func check(t *testing.T, rows []transition) {
	checkAll(t, rows, cmpopts.IgnoreFields(Memory{}, "server"), cmpopts.IgnoreFields(Streaming{}, "began"),
		cmpopts.IgnoreFields(Listing{}, "holds"))
}

// checkAll checks transitions.
func checkAll(t *testing.T, rows []transition, but ...cmp.Option) {
	equal := cmp.Options{
		cmp.Options(but),
		cmp.AllowUnexported(Listing{}, Connecting{}, ReadingInitial{}, Streaming{}, Probing{}, Waiting{}, Memory{},
			place{}, streaks{}, Server{}),
		cmp.FilterValues(func(a, b error) bool { return a != nil && b != nil },
			cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })),
		cmpopts.EquateEmpty(),
	}
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			before := fmt.Sprintf("%#v", tt.from)
			got, out := Step(tt.from, tt.in)
			if diff := cmp.Diff(tt.to, got, equal); diff != "" {
				t.Errorf("state: %s (-want +got):\n%s", tt.why, diff)
			}
			var want Outputs
			for _, set := range tt.out {
				set(&want)
			}
			if diff := cmp.Diff(want, out, equal); diff != "" {
				t.Errorf("outputs: %s (-want +got):\n%s", tt.why, diff)
			}
			if after := fmt.Sprintf("%#v", tt.from); before != after {
				t.Errorf("Step changed the State it was given:\n%s\n%s", before, after)
			}
		})
	}
}

// sameErrors compares errors by identity.
var sameErrors = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Err" },
	cmp.Comparer(func(a, b error) bool { return a == b }))

func TestStart(t *testing.T) {
	tests := []struct {
		why   string
		rules Rules
		from  Beginning
		want  State
	}{{
		"without streaming lists, a paged list comes first",
		Rules{}, Beginning{},
		Listing{},
	}, {
		"with streaming lists, the snapshot comes with the watch",
		Rules{InitialEvents: true}, Beginning{},
		Connecting{Memory: unsynced(streamed), initial: true},
	}, {
		"a start at now reads a snapshot for the index, though none of it is delivered",
		Rules{Quiet: true, InitialEvents: true}, Beginning{},
		Connecting{Memory: unsynced(quiet, streamed), initial: true},
	}, {
		"client-go's fake is listed, even at a start at now",
		Rules{Quiet: true, NoProbe: true}, Beginning{},
		Listing{Memory: unsynced(quiet, noProbe)},
	}, {
		"a start at a version probes first: the server may have gone back in time",
		Rules{Partial: true, InitialEvents: true}, Beginning{Version: "7"},
		Probing{Memory: unsynced(partial, streamed, rv("7")), pending: onceContinued},
	}, {
		"client-go's fake does not go back in time: no probe",
		Rules{NoProbe: true}, Beginning{Version: "7"},
		Connecting{Memory: unsynced(noProbe, rv("7")), pending: onceOpen},
	}, {
		"the rest of a snapshot must not be older than the part that was delivered: a paged list shows that first",
		Rules{InitialEvents: true}, Beginning{Minimum: "7"},
		Listing{Memory: unsynced(streamed, minimum("7"))},
	}, {
		"after a kill it is unknown what was delivered: GAP, and a paged list, which names the version of GAP first",
		Rules{InitialEvents: true, Unclean: true}, Beginning{Begun: true, From: "5", Minimum: "7"},
		Listing{Memory: unsynced(streamed, unclean, minimum("7"), gapped(GapRestarted, "5"))},
	}, {
		"also if no version is known",
		Rules{InitialEvents: true}, Beginning{Begun: true},
		Listing{Memory: unsynced(streamed, gapped(GapRestarted, ""))},
	}, {
		"after another scope comes GAP, and a paged list, which names the version of GAP first",
		Rules{InitialEvents: true}, Beginning{Moved: true, From: "5", Minimum: "7"},
		Listing{Memory: unsynced(streamed, minimum("7"), relists(1), gapped(GapScope, "5"))},
	}, {
		"after another scope, FailOnGap ends the sequence",
		Rules{InitialEvents: true, FailOnGap: true}, Beginning{Moved: true, From: "5", Minimum: "7"},
		Stopped{Gap: Gap{GapScope, "5"}, Err: errScope},
	}, {
		"after another scope comes one GAP, even if it is unknown what was delivered",
		Rules{Unclean: true}, Beginning{Begun: true, Moved: true, From: "5"},
		Listing{Memory: unsynced(unclean, relists(1), gapped(GapScope, "5"))},
	}, {
		"after a kill, FailOnGap ends the sequence",
		Rules{FailOnGap: true}, Beginning{Begun: true},
		Stopped{Gap: Gap{GapRestarted, ""}},
	}}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, Start(tt.rules, tt.from),
			cmp.AllowUnexported(Listing{}, Connecting{}, Probing{}, Waiting{}, Memory{}, place{}, streaks{}),
			cmpopts.IgnoreFields(Memory{}, "server"),
			sameErrors); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
}

func TestWaiting(t *testing.T) {
	next := Connecting{Memory: synced("5")}
	check(t, []transition{
		{"the wait is over", "the next State is the one that was decided before the wait",
			Waiting{Attempt: 2, next: next}, Elapsed{},
			next, nil},
		{"retries took too long", "the sequence ends with the error that was retried",
			Waiting{Attempt: 2, Cause: errServer, next: next}, GaveUp{time.Minute},
			Stopped{Err: errServer.Err, GaveUp: GaveUp{time.Minute}}, nil},
	})
}

func TestEveryInputIsHandledOrAnError(t *testing.T) {
	// Step handles a pair of State and Input, or ends the sequence with an error. It neither panics nor ignores it.
	handled := map[string]bool{
		"Listing Page": true, "Listing Failed": true,
		"Connecting Opened": true, "Connecting Failed": true,
		"ReadingInitial Frame": true, "ReadingInitial Silent": true, "ReadingInitial Closed": true,
		"Streaming Frame": true, "Streaming Silent": true, "Streaming Closed": true, "Streaming Contradicted": true,
		"Streaming Continues": true,
		"Probing Page":        true, "Probing Failed": true,
		"Waiting Elapsed": true, "Waiting GaveUp": true,
	}
	states := []State{Listing{}, Connecting{}, ReadingInitial{}, Streaming{}, Probing{}, Waiting{next: Listing{}}}
	inputs := []Input{Page{Version: "1"}, Opened{}, Frame{Version: "9"}, Silent{}, Closed{}, Failed{errServer},
		Contradicted{}, Continues{}, Elapsed{}, GaveUp{}, nil}
	tried := 0
	for _, s := range states {
		for _, in := range inputs {
			pair := typeName(s) + " " + typeName(in)
			got, out := Step(s, in)
			end, ended := got.(Stopped)
			unknown := ended && end.Err != nil && end.GaveUp == GaveUp{}
			if unknown == handled[pair] {
				t.Errorf("%s: %#v, want handled = %v", pair, got, handled[pair])
			}
			if unknown && (out != Outputs{}) {
				t.Errorf("%s: outputs after a mistake of the driver: %v", pair, out)
			}
			if handled[pair] {
				tried++
			}
		}
	}
	if tried != len(handled) {
		t.Errorf("%d of the %d pairs were tried", tried, len(handled))
	}
	for _, in := range inputs {
		if got, _ := Step(Stopped{Err: errServer.Err}, in); got != (Stopped{Err: errServer.Err}) {
			t.Errorf("%T changed Stopped to %#v", in, got)
		}
	}
}

func typeName(v any) string {
	if v == nil {
		return "nil"
	}
	return reflect.TypeOf(v).Name()
}
