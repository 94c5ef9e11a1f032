package streamtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// An event that stands for several may be acked ahead of others. Then what is kept
// has the object as it was in between.
func TestCheckCheckpointLatest(t *testing.T) {
	at := func(rv string, objects ...checkpoint.Object) *checkpoint.Position {
		return &checkpoint.Position{Objects: objects, ResourceVersions: map[string]string{"": rv}}
	}
	object := func(name, rv string) checkpoint.Object {
		return checkpoint.Object{Namespace: "x", Name: name, UID: "u", ResourceVersion: rv}
	}
	told := func(kind stream.Type, name, rv string, coalesced int) stream.Event {
		return stream.Event{Type: kind, ResourceVersion: rv, Object: identityAt("x", name, "u", rv), Coalesced: coalesced}
	}
	before := at("1", object("y", "1"), object("z", "1"))
	events := []stream.Event{
		told(stream.Added, "b", "3", 0), told(stream.Added, "c", "4", 0),
		told(stream.Added, "a", "6", 1), told(stream.Deleted, "y", "7", 2), told(stream.Modified, "z", "8", 2),
	}
	b, y, z := object("b", "3"), object("y", "1"), object("z", "1")
	another := object("a", "2")
	another.UID = "u2"
	for _, tc := range []struct {
		after *checkpoint.Position
		acked []int
		want  error
		why   string
	}{
		{at("3", b, y, z, object("a", "2")), []int{0, 2}, nil, "there was an a at 3"},
		{at("3", b, y, z), []int{0, 2}, nil, "the last commits were lost"},
		{at("3", b, y, z, object("a", "2")), []int{0}, ErrAcknowledged, "a was not acked"},
		{at("3", b, y, z, object("a", "6")), []int{0, 2}, ErrDurable, "6 is beyond c, that was not acked"},
		{at("3", b, y, z, another), []int{0, 2}, ErrDurable, "another object"},
		{at("3", b, y), []int{0, 4}, nil, "z had gone, and came back"},
		{at("3", b, y), []int{0}, ErrAcknowledged, "that was not acked"},
		{at("3", b, y, object("z", "2")), []int{0, 4}, nil, "z had come back by then"},
		{at("3", b, y, object("z", "0")), []int{0, 4}, ErrDurable, "it was never kept at a version before"},
		{at("3", b, z), []int{0, 3}, nil, "y had gone, and came back, and went for good"},
		{at("3", b, z, object("y", "2")), []int{0, 3}, ErrDurable, "what came and went is not kept"},
		{at("3", b, y, z, object("c", "2")), []int{0, 1}, ErrDurable, "the event of c stands for no other"},
		{at("4", b, y, z), []int{0, 1, 2, 3, 4}, ErrDurable, "c is missing at 4"},
	} {
		run := CheckpointRun{Before: before, After: tc.after, Events: events, Acked: func(i int) bool { return slices.Contains(tc.acked, i) },
			Options: CheckOptions{Latest: true}}
		if err := CheckCheckpoint(run); !errors.Is(err, tc.want) {
			t.Errorf("%s, acked %v (%s): got %v, want %v", positionText(tc.after), tc.acked, tc.why, err, tc.want)
		}
	}
	// Within a snapshot another object of that name may have gone before.
	listed := CheckpointRun{
		Before: &checkpoint.Position{Objects: []checkpoint.Object{another}},
		After:  &checkpoint.Position{Objects: []checkpoint.Object{object("a", "4")}},
		Events: []stream.Event{
			told(stream.Added, "b", "3", 0), // not acked
			{Type: stream.Deleted, ResourceVersion: "2", Object: identityAt("x", "a", "u2", "2"), Inferred: true},
			told(stream.Added, "a", "6", 1),
		},
		Acked:   func(i int) bool { return i > 0 },
		Options: CheckOptions{Latest: true},
	}
	if err := CheckCheckpoint(listed); err != nil {
		t.Errorf("within a snapshot: %v", err)
	}
	// Half a snapshot has no version, unless what ended it may have been left out.
	synced, gap := stream.Event{Type: stream.Synced, ResourceVersion: "9"}, stream.Event{Type: stream.Gap, Gap: &stream.GapDetails{Reason: stream.GapExpired, From: "9"}}
	for _, tc := range []struct {
		events []stream.Event
		want   error
		why    string
	}{
		{[]stream.Event{told(stream.Added, "b", "3", 0), told(stream.Added, "c", "5", 0), synced}, ErrDurable, "it ends with SYNCED"},
		{[]stream.Event{told(stream.Added, "b", "3", 0), told(stream.Added, "c", "5", 0), gap}, nil, "c may have come after a SYNCED that the GAP overtook"},
		{[]stream.Event{told(stream.Added, "b", "3", 0), told(stream.Added, "c", "5", 0)}, nil, "the GAP may not have been told yet"},
		{[]stream.Event{gap, told(stream.Added, "b", "3", 0), told(stream.Added, "c", "5", 0), synced}, nil, "the GAP may be two"},
	} {
		run := CheckpointRun{After: at("3", b), Events: tc.events, Options: CheckOptions{Latest: true}}
		if err := CheckCheckpoint(run); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.why, err, tc.want)
		}
	}
	run := CheckpointRun{Before: before, After: at("3", b, y, z, object("a", "2")), Events: events}
	if err := CheckCheckpoint(run); !errors.Is(err, ErrDurable) {
		t.Errorf("got %v of a state that was never told, want %v", err, ErrDurable)
	}
}
