package streamtest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvrwatch/gvrwatch/stream"
)

// recordingOf is a recording of events at these seconds.
func recordingOf(t *testing.T, s string, end int, times ...int) Recording {
	rec := Recording{Begin: began, End: began.Add(time.Duration(end) * time.Second), Events: eventsOf(t, s)}
	for _, at := range times {
		rec.Times = append(rec.Times, began.Add(time.Duration(at)*time.Second))
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
		opts    CheckOptions
		want    string
	}{
		{"all within 2 seconds", h, "ADDED a(u1)@1; SYNCED @1; MODIFIED a(u1)@2; MODIFIED a(u1)@3; DELETED a(u1)@4", []int{0, 0, 2, 3, 5}, 60, CheckOptions{}, ""},
		{"a GAP in time, the differences later", h, "ADDED a(u1)@1; SYNCED @1; GAP expired 1..; DELETED a(u1)@1 inferred; SYNCED @4", []int{0, 0, 3, 50, 50}, 60, CheckOptions{}, ""},
		{"a change is not yet due", h, "ADDED a(u1)@1; SYNCED @1; MODIFIED a(u1)@2; MODIFIED a(u1)@3", []int{0, 0, 1, 2}, 4, CheckOptions{}, ""},
		{"a snapshot that takes long", h, "SYNCED @4", []int{30}, 60, CheckOptions{}, ""},
		{"what is not selected is not due", "ADDED a(u1)@1 =1; MODIFIED a(u1)@2 =2", "SYNCED @1", []int{0}, 60, CheckOptions{Selected: contentAbove(5)}, ""},
		{"another namespace is not due", "ADDED y/a(u1)@1; ADDED y/a(u1)@2", "SYNCED @1", []int{0}, 60, CheckOptions{Namespaces: []string{"x"}}, ""},
		{"a change that the server forgot", "ADDED a(u1)@1; MODIFIED a(u1)@2; rewind 1", "ADDED a(u1)@1; SYNCED @1", []int{0, 0}, 60, CheckOptions{}, ""},

		{"one event is late", h, "ADDED a(u1)@1; SYNCED @1; MODIFIED a(u1)@2; MODIFIED a(u1)@3; DELETED a(u1)@4", []int{0, 0, 2, 5, 5}, 60, CheckOptions{}, inTime},
		{"the GAP is late", h, "ADDED a(u1)@1; SYNCED @1; GAP expired 1..; DELETED a(u1)@1 inferred; SYNCED @4", []int{0, 0, 4, 4, 4}, 60, CheckOptions{}, inTime},
		{"nothing is told for ever", h, "ADDED a(u1)@1; SYNCED @1", []int{0, 0}, 60, CheckOptions{}, inTime},
		{"now, and nothing is told", h, "SYNCED @1", []int{0}, 60, CheckOptions{Now: true}, inTime},
		{"after, and nothing is told", h, "", nil, 60, CheckOptions{After: "1"}, inTime},
		{"one of two namespaces is blind", "ADDED x/a(u1)@1; ADDED y/b(u2)@2; MODIFIED x/a(u1)@3", "ADDED x/a(u1)@1 in x; ADDED y/b(u2)@2 in y; SYNCED ; GAP expired 2.. in y; SYNCED ", []int{1, 1, 1, 2, 60}, 60, CheckOptions{Namespaces: []string{"x", "y"}}, inTime},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			onlyBroken(t, CheckTimely(historyOf(t, tt.history), recordingOf(t, tt.events, tt.end, tt.times...), 2*time.Second, &tt.opts), tt.want)
		})
	}
	if err := CheckTimely(History{}, Recording{}, 0, nil); err != nil {
		t.Errorf("nothing: %v", err)
	}
}

func TestCheckRequests(t *testing.T) {
	every := func(n int, d time.Duration) []Request {
		var all []Request
		for i := range n {
			all = append(all, Request{At: began.Add(time.Duration(i) * d), Verb: "list", Resource: "robots"})
		}
		return all
	}
	for _, tt := range []struct {
		why      string
		requests []Request
		want     string
	}{
		{"none", nil, ""},
		{"5 a second for an hour", every(18000, 200*time.Millisecond), ""},
		{"a burst of 50", every(50, 0), ""},
		{"51 at once", every(51, 0), bounded},
		{"6 a second", every(60, time.Second/6), bounded},
		{"a burst after a quiet time", append(every(3, time.Minute), every(51, 10*time.Millisecond)...), bounded},
	} {
		t.Run(tt.why, func(t *testing.T) { onlyBroken(t, CheckRequests(tt.requests), tt.want) })
	}
}

func TestCheckStatuses(t *testing.T) {
	cause, next := errors.New("refused"), began
	for _, tt := range []struct {
		why    string
		status stream.Status
		want   string
	}{
		{"nothing is wrong", stream.Status{State: stream.Streaming, Synced: true}, ""},
		{"not begun", stream.Status{State: stream.Idle}, ""},
		{"a failure with all that is to know", stream.Status{State: stream.Backoff, Cause: cause, NextTry: next, Attempt: 1}, ""},
		{"stopped without an error", stream.Status{State: stream.Stopped}, ""},
		{"stopped by an error", stream.Status{State: stream.Stopped, Cause: cause}, ""},
		{"no state", stream.Status{}, classified},
		{"a state of its own", stream.Status{State: "Confused"}, classified},
		{"no cause", stream.Status{State: stream.Forbidden, NextTry: next}, classified},
		{"no next try", stream.Status{State: stream.Stalled, Cause: cause}, classified},
		{"well, with a cause", stream.Status{State: stream.Streaming, Cause: cause}, classified},
		{"well, with a next try", stream.Status{State: stream.Resuming, NextTry: next}, classified},
		{"stopped, and going to try", stream.Status{State: stream.Stopped, NextTry: next}, classified},
		{"one namespace without a cause", stream.Status{State: stream.Gone, Cause: cause, NextTry: next,
			Namespaces: []stream.Status{{State: stream.Streaming}, {State: stream.Gone, Namespace: "x"}}}, classified},
	} {
		t.Run(tt.why, func(t *testing.T) {
			onlyBroken(t, CheckStatuses([]stream.Status{{State: stream.Idle}, tt.status}), tt.want)
		})
	}
}

func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		final := errors.New("final")
		events := eventsOf(t, "ADDED a(u1)@1; SYNCED @1; MODIFIED a(u1)@2")
		seq := func(yield func(stream.Event, error) bool) {
			for _, ev := range events {
				time.Sleep(time.Minute)
				if !yield(ev, nil) {
					return
				}
			}
			yield(stream.Event{}, final)
		}
		begin := time.Now()
		times := []time.Time{begin.Add(time.Minute), begin.Add(2 * time.Minute), begin.Add(3 * time.Minute)}
		want := Recording{Events: events, Times: times, Begin: begin, End: times[2], Err: final}
		if diff := cmp.Diff(want, Record(seq, nil), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("to the end (-want +got):\n%s", diff)
		}
		rec := Record(seq, func(ev stream.Event) bool { return ev.Type == stream.Synced })
		if diff := cmp.Diff([]string{"ADDED a@1", "SYNCED @1"}, Texts(rec.Events)); diff != "" || rec.Err != nil {
			t.Errorf("until SYNCED: %v (-want +got):\n%s", rec.Err, diff)
		}
	})
}

func TestText(t *testing.T) {
	for _, want := range []string{"ADDED a(u1)@7", "DELETED x/a(u1)@9 inferred", "MODIFIED a(u1)", "SYNCED @12", "SYNCED", "BOOKMARK @9 in x",
		"GAP expired 5..12 history lost", "GAP rewound 5.. in x"} {
		in := want
		if in == "MODIFIED a(u1)" {
			in += "@"
		}
		if got := TextUID(eventOf(t, in)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := Text(eventOf(t, "ADDED x/a(u1)@7 in x")); got != "ADDED x/a@7" {
		t.Errorf("got %q", got)
	}
	if got := Text(stream.Event{}); got != "" {
		t.Errorf("got %q for no event", got)
	}
}
