package relay

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/stream"
)

// TestProgress: a Stream that begins at the position, with the objects of the log, delivers what is not in the log.
func TestProgress(t *testing.T) {
	at := func(typ stream.Type, version string) stream.Event {
		return stream.Event{Type: typ, ResourceVersion: version}
	}
	coalesced := func(version string) stream.Event {
		ev := at(stream.Modified, version)
		ev.Envelope(friend.Access{}).Coalesced = 1
		return ev
	}
	gap := func(reason stream.GapReason) stream.Event {
		return stream.Event{Type: stream.Gap, Gap: &stream.GapDetails{Reason: reason}}
	}
	for _, c := range []struct {
		why    string
		begin  engine.Position
		events []stream.Event
		want   engine.Position
	}{
		{
			why:    "a snapshot has no version until it is complete",
			events: []stream.Event{at(stream.Added, "3"), at(stream.Added, "7")},
			want:   engine.Position{},
		},
		{
			why:    "SYNCED has the version of the snapshot, which is later than that of its objects",
			events: []stream.Event{at(stream.Added, "3"), at(stream.Synced, "9")},
			want:   engine.Position{ResourceVersion: "9", Scope: "new"},
		},
		{
			why:    "live events and bookmarks move the version",
			begin:  engine.Position{ResourceVersion: "5"},
			events: []stream.Event{at(stream.Modified, "6"), at(stream.Deleted, "7"), at(stream.Bookmark, "10")},
			want:   engine.Position{ResourceVersion: "10"},
		},
		{
			why:    "a version that no position has room for is none",
			begin:  engine.Position{ResourceVersion: "5"},
			events: []stream.Event{at(stream.Modified, strings.Repeat("9", longestVersion+1))},
			want:   engine.Position{},
		},
		{
			why:    "the longest version is kept",
			begin:  engine.Position{ResourceVersion: "5"},
			events: []stream.Event{at(stream.Modified, strings.Repeat("9", longestVersion))},
			want:   engine.Position{ResourceVersion: strings.Repeat("9", longestVersion)},
		},
		{
			why:   "the version of an inferred event is the last one that was known",
			begin: engine.Position{ResourceVersion: "5"},
			events: []stream.Event{
				at(stream.Modified, "9"), {Type: stream.Deleted, ResourceVersion: "2", Inferred: true},
			},
			want: engine.Position{ResourceVersion: "9"},
		},
		{
			why:    "after a gap the differences have no order",
			begin:  engine.Position{ResourceVersion: "5"},
			events: []stream.Event{gap(stream.GapExpired), at(stream.Modified, "8")},
			want:   engine.Position{},
		},
		{
			why:    "a rewind is remembered until everything is published again",
			begin:  engine.Position{ResourceVersion: "5"},
			events: []stream.Event{gap(stream.GapRewound), at(stream.Modified, "2")},
			want:   engine.Position{Rewound: true},
		},
		{
			why:    "another gap before that does not forget it",
			begin:  engine.Position{ResourceVersion: "5"},
			events: []stream.Event{gap(stream.GapRewound), gap(stream.GapExpired)},
			want:   engine.Position{Rewound: true},
		},
		{
			why:    "SYNCED ends a rewind",
			begin:  engine.Position{Rewound: true},
			events: []stream.Event{gap(stream.GapRestarted), at(stream.Synced, "4")},
			want:   engine.Position{ResourceVersion: "4", Scope: "new"},
		},
		{
			why:    "an event that stands for others may be ahead of events with lower versions",
			begin:  engine.Position{ResourceVersion: "5"},
			events: []stream.Event{coalesced("9"), at(stream.Modified, "6"), at(stream.Modified, "7")},
			want:   engine.Position{},
		},
		{
			why:    "it is not when an event that arrived later follows",
			begin:  engine.Position{ResourceVersion: "5"},
			events: []stream.Event{coalesced("9"), at(stream.Modified, "6"), at(stream.Modified, "10")},
			want:   engine.Position{ResourceVersion: "10"},
		},
		{
			why:    "versions are compared as numbers",
			begin:  engine.Position{ResourceVersion: "99"},
			events: []stream.Event{coalesced("101"), at(stream.Modified, "100")},
			want:   engine.Position{},
		},
		{
			why:    "a Stream can't resume after an event without a version",
			begin:  engine.Position{ResourceVersion: "5"},
			events: []stream.Event{at(stream.Modified, "")},
			want:   engine.Position{},
		},
		{
			why:    "what was published for another scope stays so until SYNCED",
			begin:  engine.Position{Scope: "old"},
			events: []stream.Event{gap(stream.GapRestarted), at(stream.Modified, "7")},
			want:   engine.Position{Scope: "old"},
		},
	} {
		p := newProgress(c.begin, "new")
		for _, ev := range c.events {
			p = p.add(ev)
		}
		var got engine.Position
		p.fill(&got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.why, diff)
		}
	}
}
