package streamtest

import (
	"errors"
	"testing"
	"time"

	"github.com/gvrwatch/gvrwatch/stream"
)

// Fields that contradict each other, or say what can't be.
func TestCheckFields(t *testing.T) {
	const told = upTo4 + "GAP expired 4..9; " + differ4to9
	tests := []struct {
		name  string
		spoil func([]stream.Event)
		want  error
	}{
		{"of another resource", func(events []stream.Event) { events[1].Resource.Resource = "gadgets" }, ErrInvented},
		{"a GAP with a version", func(events []stream.Event) { events[4].ResourceVersion = "9" }, ErrInvented},
		{"a GAP for no reason that there is", func(events []stream.Event) { events[4].Gap.Reason = "bored" }, ErrSilent},
		{"a GAP of less than no time", func(events []stream.Event) { events[4].Gap.Duration = -time.Second }, ErrSilent},
		{"a SYNCED without a version", func(events []stream.Event) { events[3].ResourceVersion = "" }, ErrSilent},
		{"a SYNCED with details", func(events []stream.Event) { events[3].Gap = events[4].Gap }, ErrInvented},
		{"an inferred end of another kind", func(events []stream.Event) {
			for _, ev := range events {
				if ev.Type == stream.Deleted {
					ev.Object.SetKind("Gadget")
				}
			}
		}, ErrInvented},
	}
	if err := Check(historyOf(t, lives), eventsOf(t, told), nil); err != nil {
		t.Fatalf("before it is spoilt: %v", err)
	}
	for _, tt := range tests {
		events := eventsOf(t, told)
		tt.spoil(events)
		if err := Check(historyOf(t, lives), events, nil); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
}
