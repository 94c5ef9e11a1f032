package oracle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The promises that a violation names.
const bounded, classified, inTime = "bounded", "classified", "in time"

// recordingOf makes a recording of events at these seconds after oracle.Began.
func recordingOf(t *testing.T, s string, end int, times ...int) streamtest.Recording {
	rec := streamtest.Recording{Begin: oracle.Began, End: oracle.Began.Add(time.Duration(end) * time.Second),
		Events: oracle.Events(t, s)}
	for _, at := range times {
		rec.Times = append(rec.Times, oracle.Began.Add(time.Duration(at)*time.Second))
	}
	return rec
}

func TestCheckTimely(t *testing.T) {
	// Change n is at second n-1.
	const h = "ADDED a(u1)@1; MODIFIED a(u1)@2; MODIFIED a(u1)@3; DELETED a(u1)@4"
	tests := []struct {
		why     string
		history string
		events  string
		times   []int
		end     int
		opts    streamtest.CheckOptions
		want    string
	}{
		{"all events within 2 seconds", h,
			"ADDED a(u1)@1; SYNCED @1; MODIFIED a(u1)@2; MODIFIED a(u1)@3; DELETED a(u1)@4", []int{0, 0, 2, 3, 5}, 60,
			streamtest.CheckOptions{}, ""},
		{"a GAP in time, the differences later", h,
			"ADDED a(u1)@1; SYNCED @1; GAP expired 1..; DELETED a(u1)@1 inferred; SYNCED @4", []int{0, 0, 3, 50, 50},
			60, streamtest.CheckOptions{}, ""},
		{"the last change is not due yet", h, "ADDED a(u1)@1; SYNCED @1; MODIFIED a(u1)@2; MODIFIED a(u1)@3",
			[]int{0, 0, 1, 2}, 4, streamtest.CheckOptions{}, ""},
		{"a snapshot that takes long", h, "SYNCED @4", []int{30}, 60, streamtest.CheckOptions{}, ""},
		{"a change of an unselected object", "ADDED a(u1)@1 =1; MODIFIED a(u1)@2 =2", "SYNCED @1", []int{0}, 60,
			streamtest.CheckOptions{Selected: oracle.Above(5)}, ""},
		{"a change in another namespace", "ADDED y/a(u1)@1; ADDED y/a(u1)@2", "SYNCED @1", []int{0}, 60,
			streamtest.CheckOptions{Namespaces: []string{"x"}}, ""},
		{"a change that the server undid", "ADDED a(u1)@1; MODIFIED a(u1)@2; rewind 1", "ADDED a(u1)@1; SYNCED @1",
			[]int{0, 0}, 60, streamtest.CheckOptions{}, ""},

		{"one event is late", h, "ADDED a(u1)@1; SYNCED @1; MODIFIED a(u1)@2; MODIFIED a(u1)@3; DELETED a(u1)@4",
			[]int{0, 0, 2, 5, 5}, 60, streamtest.CheckOptions{}, inTime},
		{"the GAP is late", h, "ADDED a(u1)@1; SYNCED @1; GAP expired 1..; DELETED a(u1)@1 inferred; SYNCED @4",
			[]int{0, 0, 4, 4, 4}, 60, streamtest.CheckOptions{}, inTime},
		{"no event after the snapshot", h, "ADDED a(u1)@1; SYNCED @1", []int{0, 0}, 60, streamtest.CheckOptions{},
			inTime},
		{"now: no event", h, "SYNCED @1", []int{0}, 60, streamtest.CheckOptions{Now: true}, inTime},
		{"after: no event", h, "", nil, 60, streamtest.CheckOptions{After: "1"}, inTime},
		{"one of two namespaces is silent", "ADDED x/a(u1)@1; ADDED y/b(u2)@2; MODIFIED x/a(u1)@3",
			"ADDED x/a(u1)@1 in x; ADDED y/b(u2)@2 in y; SYNCED ; GAP expired 2.. in y; SYNCED ", []int{1, 1, 1, 2, 60},
			60, streamtest.CheckOptions{Namespaces: []string{"x", "y"}}, inTime},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			oracle.WantBroken(t,
				oracle.CheckTimely(oracle.History(t, tt.history), recordingOf(t, tt.events, tt.end, tt.times...),
					2*time.Second, &tt.opts), tt.want)
		})
	}
	if err := oracle.CheckTimely(streamtest.History{}, streamtest.Recording{}, 0, nil); err != nil {
		t.Errorf("nothing: %v", err)
	}
}

func TestCheckRequests(t *testing.T) {
	every := func(n int, d time.Duration) []streamtest.Request {
		var all []streamtest.Request
		for i := range n {
			all = append(all,
				streamtest.Request{At: oracle.Began.Add(time.Duration(i) * d), Verb: "list", Resource: "robots"})
		}
		return all
	}
	for _, tt := range []struct {
		why      string
		requests []streamtest.Request
		want     string
	}{
		{"none", nil, ""},
		{"5 per second for an hour", every(18000, 200*time.Millisecond), ""},
		{"a burst of 50", every(50, 0), ""},
		{"51 at once", every(51, 0), bounded},
		{"6 per second", every(60, time.Second/6), bounded},
		{"a burst after a quiet time", append(every(3, time.Minute), every(51, 10*time.Millisecond)...), bounded},
	} {
		t.Run(tt.why, func(t *testing.T) { oracle.WantBroken(t, oracle.CheckRequests(tt.requests), tt.want) })
	}
}

func TestCheckStatuses(t *testing.T) {
	cause, next := errors.New("refused"), oracle.Began
	for _, tt := range []struct {
		why    string
		status stream.Status
		want   string
	}{
		{"nothing is wrong", stream.Status{State: stream.Streaming, Synced: true}, ""},
		{"not started", stream.Status{State: stream.Idle}, ""},
		{"a failure with its cause and next try",
			stream.Status{State: stream.Backoff, Cause: cause, NextTry: next, Attempt: 1}, ""},
		{"stopped without an error", stream.Status{State: stream.Stopped}, ""},
		{"stopped by an error", stream.Status{State: stream.Stopped, Cause: cause}, ""},
		{"no state", stream.Status{}, classified},
		{"an unknown state", stream.Status{State: "Confused"}, classified},
		{"no cause", stream.Status{State: stream.Forbidden, NextTry: next}, classified},
		{"no next try", stream.Status{State: stream.Stalled, Cause: cause}, classified},
		{"healthy with a cause", stream.Status{State: stream.Streaming, Cause: cause}, classified},
		{"healthy with a next try", stream.Status{State: stream.Resuming, NextTry: next}, classified},
		{"stopped with a next try", stream.Status{State: stream.Stopped, NextTry: next}, classified},
		{"one namespace without a cause", stream.Status{State: stream.Gone, Cause: cause, NextTry: next,
			Namespaces: []stream.Status{{State: stream.Streaming}, {State: stream.Gone, Namespace: "x"}}}, classified},
	} {
		t.Run(tt.why, func(t *testing.T) {
			oracle.WantBroken(t, oracle.CheckStatuses([]stream.Status{{State: stream.Idle}, tt.status}), tt.want)
		})
	}
}

func TestTextUIDPrintsWhatEventsParses(t *testing.T) {
	for _, want := range []string{"ADDED a(u1)@7", "DELETED x/a(u1)@9 inferred", "MODIFIED a(u1)", "SYNCED @12",
		"SYNCED",
		"BOOKMARK @9 in x", "GAP expired 5..12 history lost", "GAP rewound 5.. in x"} {
		in := want
		if in == "MODIFIED a(u1)" {
			in += "@"
		}
		if got := oracle.TextUID(oracle.Events(t, in)[0]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
