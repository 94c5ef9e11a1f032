package streamtest

import (
	"fmt"

	"github.com/gvrwatch/gvrwatch/stream"
)

// The promises that a Violation can be of.
const (
	ordered   = "ordered"   // live events come in the order of the server's versions
	unique    = "unique"    // no uid, resourceVersion and type twice, but after a GAP that says why
	complete  = "complete"  // at SYNCED all is known that exists; from there on no change is missing
	announced = "announced" // a break is a GAP with why and from where, then differences, then SYNCED
	removed   = "removed"   // every removal is delivered, by uid, before another object of that name
	truthful  = "truthful"  // nothing is delivered that never was, and no failure looks like a deletion
	resumed   = "resumed"   // a sequence that resumes delivers what changed since, and nothing else
	monotonic = "monotonic" // no older state without GAP(rewound); no request at resourceVersion 0

	acknowledged = "acknowledged" // a checkpoint never passes an event that was not acked
	durable      = "durable"      // a checkpoint is old or new, never torn

	inTime     = "in time"    // a change or a GAP comes in time, whatever the connection does
	bounded    = "bounded"    // at most 5 requests a second on average over 10 seconds
	classified = "classified" // a status is a known state, with a cause and a next try where something is wrong
)

// Violation is one broken promise.
type Violation struct {
	// Promise is ordered, unique, complete, announced, removed, truthful, resumed,
	// monotonic (of Check), acknowledged, durable (of CheckCheckpoint), in time, bounded
	// or classified.
	Promise string
	// Index is that of the event in the recording, or of the request or the status.
	// It is the number of events for what is missing at the end.
	Index int
	What  string // the event, as Text has it, or the request or the status
	Why   string // what it should have been, in one clause
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%d %s: not %s: %s", v.Index, v.What, v.Promise, v.Why)
}

// textAt describes event i, or the end after the last one.
func textAt(events []stream.Event, i int) string {
	if i < 0 || i >= len(events) {
		return "the end"
	}
	return Text(events[i])
}
