package streamtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gvrwatch/gvrwatch/stream"
)

// The promises that a recording can be seen to break, one error each. Two of them
// are about checkpoints, which don't show in a sequence of events: CheckCheckpoint
// holds what is kept against it.
var (
	// ErrOrder: live events come in the order of the server's versions.
	ErrOrder = errors.New("events out of order")
	// ErrRepeated: no uid, resourceVersion and type twice, but after a GAP that
	// says that history was lost or that the server went back in time.
	ErrRepeated = errors.New("told twice")
	// ErrMissing: what was told adds up to the server's state at each SYNCED, and
	// from there on no change is left out.
	ErrMissing = errors.New("a change is missing")
	// ErrSilent: a break is told as GAP with why and from where, then come only
	// differences, marked as inferred, then SYNCED, and nothing is inferred elsewhere.
	ErrSilent = errors.New("a break is not told as it should be")
	// ErrRemoval: every removal is told, by uid, before another object of that name.
	ErrRemoval = errors.New("a removal is not told")
	// ErrInvented: nothing is told that never was. No failure looks like a deletion.
	ErrInvented = errors.New("told what never was")
	// ErrResumed: a sequence that goes on from a position tells all that changed
	// since, and nothing else.
	ErrResumed = errors.New("not resumed where it was left")
	// ErrAcknowledged: a checkpoint never passes an event that was not acked.
	ErrAcknowledged = errors.New("an event was passed that was not acked")
	// ErrBackInTime: no older state without GAP(rewound), and no list or watch at
	// resourceVersion 0, which may be any state of the past.
	ErrBackInTime = errors.New("back in time without a word")
	// ErrBlind: a change or a GAP is told in time, whatever the connection does.
	ErrBlind = errors.New("blind for too long")
	// ErrUnbounded: at most 5 requests a second on average over 10 seconds.
	ErrUnbounded = errors.New("too many requests")
	// ErrDurable: a checkpoint is old or new, never torn.
	ErrDurable = errors.New("a checkpoint that nobody committed")
	// ErrUnclassified: a status is one of the known states, and has a cause and a
	// next try exactly where something is wrong.
	ErrUnclassified = errors.New("a status without a proper class")
)

// Violation is one broken promise.
type Violation struct {
	Promise error // one of the errors above
	// Index is that of the event in the recording, or of the request or the status.
	// It is the number of events for what is missing at the end.
	Index int
	What  string // the event, as Text has it, or the request or the status
	Why   string // what it should have been, in one clause
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%d %s: %v: %s", v.Index, v.What, v.Promise, v.Why)
}

// Unwrap returns the promise.
func (v *Violation) Unwrap() error { return v.Promise }

// mostViolations keeps the error of a hopeless recording readable.
const mostViolations = 50

func joined(broken []*Violation) error {
	slices.SortStableFunc(broken, func(a, b *Violation) int { return cmp.Compare(a.Index, b.Index) })
	var errs []error
	for _, v := range broken {
		if len(errs) == mostViolations {
			errs = append(errs, fmt.Errorf("and %d more", len(broken)-len(errs)))
			break
		}
		errs = append(errs, v)
	}
	return errors.Join(errs...)
}

// textAt describes event i, or the end after the last one.
func textAt(events []stream.Event, i int) string {
	if i < 0 || i >= len(events) {
		return "the end"
	}
	return Text(events[i])
}
