package mux

import (
	"cmp"
	"log/slog"
)

// Options change a Mux. The zero value is the default.
type Options struct {
	// Overflow says what becomes of events that come faster than the loop takes them:
	// Block (the default) or Latest. SourceOptions can say otherwise.
	Overflow Overflow
	// Events is how many may wait of each source with Block, besides the one that the
	// source then waits with itself. Zero means 100.
	Events int
	// Bytes is how much may wait of all sources together with Block, of events as JSON,
	// more or less (in memory they take several times that). One event of each source
	// may wait in any case. Zero means 64 MiB.
	Bytes int64
	// Lists is how many sources may read their snapshots at once. Zero means 16.
	Lists int
	// OnError decides what becomes of a source that has ended with an error, which is
	// final for it: what time can heal never comes here. It is called by the goroutine
	// that ranges, once what the source told before has been yielded, and may call the
	// Mux's methods, Add and Remove among them. If it panics, the source is dropped
	// and the Logger told. Nil means Fail.
	OnError func(key string, err error) Decision
	// Logger is told of sources that fail and what becomes of them. Nil means that
	// nothing is logged.
	Logger *slog.Logger
}

// SourceOptions are those of one source. The zero value is the default.
type SourceOptions struct {
	// Key tells the source from the others, instead of what its own Key says: two
	// Streams that watch the same say the same. Empty means its own.
	Key string
	// Overflow is Block or Latest. Empty means what Options say.
	Overflow Overflow
	// Events is as in Options. Zero means what they say.
	Events int
}

// Overflow says what becomes of events that come faster than the loop takes them.
type Overflow string

const (
	// Block makes a source wait once its share of the queue is full, until there is
	// room for half of it. Its server notices, and may end the watch, which costs a GAP
	// at worst.
	Block Overflow = "block"
	// Latest keeps for each object only what is needed to say how it is now, so that
	// the source is read on whatever the loop does. The newest event of an object takes
	// the place in line of the oldest one that it stands for:
	//
	//   - ADDED stays ADDED, with the newest state,
	//   - ADDED and DELETED leave the line,
	//   - MODIFIED and what follows it become that,
	//   - DELETED stays; if the same object is ADDED again that is an event of its own.
	//
	// Objects with different uids are never coalesced. Event.Coalesced counts the other
	// events that one stands for. So events of two objects may come in another order than
	// that of their resourceVersions; those of one object do not.
	//
	// Nothing is coalesced across GAP and SYNCED, so that what was delivered still adds
	// up to what existed at each SYNCED. Of BOOKMARKs only the last one waits. A source
	// waits when a second GAP (of one namespace) or a third SYNCED would wait, so that at
	// most four states of each object are in memory. An event is acked with all that it stands for, and a
	// checkpoint does not get past its place in line before.
	Latest Overflow = "latest"
)

// Decision says what becomes of a source that failed.
type Decision string

const (
	// Fail ends the sequence with a *SourceError. It is the default, and what anything
	// that is no Decision is taken for.
	Fail Decision = "fail"
	// Drop removes the source. Nothing is told of what becomes of its objects. If none
	// is left the sequence waits for Add; if all that are left have ended, it ends.
	Drop Decision = "drop"
	// Retry begins the source again after a random wait that grows up to 30 s, as
	// long as it does not do well for a minute: where it was, if it is a Stream that
	// has told anything, and failed neither because of a gap (*stream.GapError) nor by a
	// panic, or else anew: then ADDED is told again, and what is gone is not told. With a
	// Checkpoint it is where that says, so that what has not been acked comes again. A
	// Stream that goes on where it was tells SYNCED once it watches again.
	Retry Decision = "retry"
)

const (
	defaultEvents = 100
	defaultBytes  = 64 << 20
	defaultLists  = 16
)

// check returns a copy of o with its defaults filled in.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	c.Overflow = cmp.Or(c.Overflow, Block)
	c.Events = cmp.Or(c.Events, defaultEvents)
	c.Bytes = cmp.Or(c.Bytes, defaultBytes)
	c.Lists = cmp.Or(c.Lists, defaultLists)
	if c.OnError == nil {
		c.OnError = func(string, error) Decision { return Fail }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case c.Bytes < 0:
		return c, &OptionsError{"Bytes", "give a positive number, or zero for the default"}
	case c.Lists < 0:
		return c, &OptionsError{"Lists", "give a positive number, or zero for the default"}
	}
	_, err := (&SourceOptions{Overflow: c.Overflow, Events: c.Events}).check(c)
	return c, err
}

// check returns a copy of o with what is empty taken from all.
func (o *SourceOptions) check(all Options) (SourceOptions, error) {
	var c SourceOptions
	if o != nil {
		c = *o
	}
	c.Overflow = cmp.Or(c.Overflow, all.Overflow)
	c.Events = cmp.Or(c.Events, all.Events)
	switch {
	case c.Overflow != Block && c.Overflow != Latest:
		return c, &OptionsError{"Overflow", "it is none of the constants: give Block or Latest"}
	case c.Events < 0:
		return c, &OptionsError{"Events", "give a positive number, or zero for the default"}
	}
	return c, nil
}
