package streamtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/stream"
)

func TestBySource(t *testing.T) {
	events := []stream.Event{{Source: "a", Type: stream.Added}, {Source: "b"}, {Source: "a", Type: stream.Deleted}}
	want := map[string][]stream.Event{"a": {events[0], events[2]}, "b": {events[1]}}
	if diff := cmp.Diff(want, BySource(events)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCheckLatest leaves out what is superseded, and what is not.
func TestCheckLatest(t *testing.T) {
	const changes = "ADDED a(u1)@2; ADDED b(u2)@3; MODIFIED a(u1)@4; ADDED c(u3)@5; MODIFIED a(u1)@6; DELETED c(u3)@7; DELETED b(u2)@8; ADDED b(u4)@9; MODIFIED b(u4)@10"
	const start = "ADDED a(u1)@2; ADDED b(u2)@3; SYNCED @3; "
	tests := []struct {
		told string
		want error // of a sequence that is settled
		why  string
	}{
		{start + "MODIFIED a(u1)@4; ADDED c(u3)@5; MODIFIED a(u1)@6; DELETED c(u3)@7; DELETED b(u2)@8; ADDED b(u4)@9; MODIFIED b(u4)@10", nil, "nothing is left out"},
		{start + "MODIFIED a(u1)@6; DELETED b(u2)@8; ADDED b(u4)@10", nil, "all is left out that can be"},
		{start + "MODIFIED a(u1)@4; MODIFIED a(u1)@6; DELETED b(u2)@8; ADDED b(u4)@10", nil, "some of it"},
		{start + "DELETED b(u2)@8; ADDED b(u4)@10", ErrMissing, "a's last state is superseded by nothing"},
		{start + "MODIFIED a(u1)@6; ADDED b(u4)@10", ErrRemoval, "the end of what is known"},
		{start + "MODIFIED a(u1)@6; DELETED b(u2)@8", ErrMissing, "the end of the sequence"},
		{start + "DELETED b(u2)@8; MODIFIED a(u1)@6; ADDED b(u4)@10", ErrMissing, "out of order"},
		{start + "MODIFIED a(u1)@6; DELETED b(u2)@8; MODIFIED b(u4)@10", ErrInvented, "it is ADDED to who does not know it"},
		{start + "MODIFIED a(u1)@6; DELETED c(u3)@7; DELETED b(u2)@8; ADDED b(u4)@10", ErrInvented, "of what was never told no end is"},
		{start + "ADDED a(u1)@6; DELETED b(u2)@8; ADDED b(u4)@10", ErrInvented, "it is known"},
		{start + "MODIFIED a(u1)@6; ADDED c(u3)@5; DELETED c(u3)@7; DELETED b(u2)@8; ADDED b(u4)@10", ErrOrder, "the older one after the newer"},
		{start + "MODIFIED a(u1)@6; MODIFIED a(u1)@6; DELETED b(u2)@8; ADDED b(u4)@10", ErrRepeated, "twice"},
		{start + "MODIFIED a(u1)@6; MODIFIED a(u1)@12; DELETED b(u2)@8; ADDED b(u4)@10", ErrInvented, "never was"},
		{start + "BOOKMARK @4; MODIFIED a(u1)@6; DELETED b(u2)@8; ADDED b(u4)@10", ErrMissing, "a was another at 4"},
		{start + "MODIFIED a(u1)@4; BOOKMARK @4; MODIFIED a(u1)@6; DELETED b(u2)@8; ADDED b(u4)@10", nil, "a true bookmark"},
		{start + "GAP expired 4..10; MODIFIED a(u1)@6 inferred; DELETED b(u2)@3 inferred; ADDED b(u4)@10 inferred; SYNCED @10", ErrMissing, "a was another at the beginning of the gap"},
		{start + "MODIFIED a(u1)@4; GAP expired 4..10; MODIFIED a(u1)@6; DELETED b(u2)@3 inferred; ADDED b(u4)@10 inferred; SYNCED @10", nil, "a live event before a SYNCED, as one before it was left out"},
		{"ADDED a(u1)@2; ADDED b(u2)@3; SYNCED @4", ErrMissing, "at SYNCED it must add up"},
	}
	for _, tt := range tests {
		h, events := historyOf(t, changes), eventsOf(t, tt.told)
		for i := range events {
			if events[i].Object != nil && events[i].Type == stream.Added {
				events[i].Coalesced = 1
			}
		}
		err := Check(h, events, &CheckOptions{Latest: true, Settled: true})
		if !errors.Is(err, tt.want) || tt.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", tt.why, err, tt.want)
		}
		if slices.ContainsFunc(events, func(ev stream.Event) bool { return ev.Coalesced > 0 }) {
			if err := Check(h, events, &CheckOptions{Settled: true}); !errors.Is(err, ErrInvented) {
				t.Errorf("%s: nothing is merged without Latest, and yet: %v", tt.why, err)
			}
		}
	}
}
