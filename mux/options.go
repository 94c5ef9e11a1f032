package mux

import (
	"cmp"
	"fmt"
	"log/slog"

	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// Options configure a Mux. The zero value is the default.
type Options struct {
	// BufferEvents is the number of events of each source that may wait for the loop. A source with one more event
	// waits until half of its queue is free. Meanwhile the server of a Stream can't send, and may end the watch, which
	// at worst causes a GAP. With [Latest] it has no effect. Zero means 100.
	BufferEvents int
	// BufferBytes is how much memory the events that wait may take in all, roughly. (Decoded objects take 3 to 50 times
	// the size of their JSON.) One event of each source may wait in any case. With [Latest] it has no effect. Zero
	// means 64 MiB.
	BufferBytes int64
	// Overflow is what happens while the loop is slower than the sources: [Block], the default, or [Latest].
	Overflow Overflow

	// ConcurrentSnapshots is the number of sources that may read their snapshots at once. Zero means 16.
	ConcurrentSnapshots int

	// OnError decides about a source that has ended with an error. The error is final: a Stream handles temporary
	// failures without it. The goroutine of the loop calls OnError after it has delivered the events of the source.
	// OnError may call the methods of the Mux. If it panics, the run ends with a *SourceError, which wraps the failure
	// of the source and a *stream.PanicError. Nil means Fail.
	OnError func(key string, err error) Decision
	// Logger receives failures of sources and decisions about them. Nil disables logging.
	Logger *slog.Logger
}

// SourceOptions configure one source. The zero value is the default.
type SourceOptions struct {
	// Key replaces the source's own Key, for example to add two Streams whose own Keys are the same. Empty means
	// its own.
	Key string
	// BufferEvents replaces Options.BufferEvents for this source. Zero means Options.BufferEvents.
	BufferEvents int
	// Overflow replaces Options.Overflow for this source. Empty means Options.Overflow.
	Overflow Overflow
}

// Overflow is what a Mux does with events that its loop does not take in time.
type Overflow string

const (
	// Block lets a source wait until there is room for its next event, so that all events are delivered.
	Block Overflow = "block"
	// Latest keeps only what is needed to describe each object as it is now, so that a source is read however slow
	// the loop is. The newest event of an object takes the place in line of the oldest one that it stands for:
	//
	//   - ADDED stays ADDED, with the newest state.
	//   - ADDED then DELETED cancel out, unless the loop may know the object from before a restart or [Retry].
	//   - MODIFIED is replaced by the event after it.
	//   - DELETED stays; if the same object is ADDED again, that is a separate event.
	//
	// Objects with different uids are never coalesced. [stream.Event.Coalesced] counts the other events that an event
	// stands for. Events of one object keep their order; those of two objects may be delivered in another order than
	// that of their resourceVersions.
	//
	// Nothing is coalesced across GAP and SYNCED, so at each SYNCED what was delivered still adds up to what exists.
	// Only the last BOOKMARK is kept. A source that is about to queue a second GAP (of one namespace) or a third SYNCED
	// waits, so at most eight events of each object are in memory. Acking an event acks all that it stands for; until
	// then the checkpoint does not pass its place in line.
	Latest Overflow = "latest"
)

// Decision says how a Mux handles a source that failed.
type Decision string

const (
	// Fail ends the run with a *SourceError. It is the default, and any unknown Decision means Fail.
	Fail Decision = "fail"
	// Drop removes the source. Its objects are not reported as deleted. If no source is left, the run waits for Add; if
	// all remaining sources have ended, the run ends.
	Drop Decision = "drop"
	// Retry starts the source again after a random wait that grows up to 30 s, and is short again once the source has
	// run for a minute.
	//
	//  1. A Stream with a Checkpoint resumes from it: what has not been acked is delivered again.
	//  2. A Stream that has delivered something resumes where it was, and delivers SYNCED when it watches again.
	//  3. After a gap (*stream.GapError) or a panic, and for all other sources, it starts from the beginning: ADDED
	//     is delivered again, and objects that were deleted meanwhile are not reported.
	//
	// A Stream that starts Now, or After a version, begins with a snapshot if it can't resume, so that no change is
	// skipped. With FailOnGap and a Checkpoint, a Stream whose checkpoint is too old fails each time.
	Retry Decision = "retry"
)

// SourceError ends a run because a source has failed.
type SourceError struct {
	Key string
	Err error
}

func (e *SourceError) Error() string { return fmt.Sprintf("mux: source %q failed: %v", e.Key, e.Err) }

func (e *SourceError) Unwrap() error { return e.Err }

const defaultEvents, defaultBytes, defaultLists = 100, 64 << 20, 16

// check returns a copy of o with its defaults filled in.
func (o *Options) check() (Options, error) {
	c := *cmp.Or(o, &Options{})
	c.Overflow = cmp.Or(c.Overflow, Block)
	err := cmp.Or(
		invalid.Negative("BufferEvents", c.BufferEvents),
		invalid.Negative("BufferBytes", c.BufferBytes),
		invalid.Negative("ConcurrentSnapshots", c.ConcurrentSnapshots),
		c.Overflow.check())
	if err != nil {
		return c, err
	}
	c.BufferEvents = cmp.Or(c.BufferEvents, defaultEvents)
	c.BufferBytes = cmp.Or(c.BufferBytes, defaultBytes)
	c.ConcurrentSnapshots = cmp.Or(c.ConcurrentSnapshots, defaultLists)
	if c.OnError == nil {
		c.OnError = func(string, error) Decision { return Fail }
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}

// check returns a copy of o with its defaults taken from all.
func (o *SourceOptions) check(all Options) (SourceOptions, error) {
	c := *cmp.Or(o, &SourceOptions{})
	if err := invalid.Negative("BufferEvents", c.BufferEvents); err != nil {
		return c, err
	}
	c.BufferEvents = cmp.Or(c.BufferEvents, all.BufferEvents)
	c.Overflow = cmp.Or(c.Overflow, all.Overflow)
	return c, c.Overflow.check()
}

func (o Overflow) check() error {
	if o != Block && o != Latest {
		return invalid.New("Overflow", string(o), "must be Block or Latest")
	}
	return nil
}
