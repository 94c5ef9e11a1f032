package mux

import "log/slog"

// Options change a Mux. The zero value is the default.
type Options struct {
	// Overflow says what becomes of events that come faster than the loop takes them:
	// Block (the default) or Latest. SourceOptions can say otherwise.
	Overflow Overflow
	// Events is how many may wait of each source with Block. Zero means 100.
	Events int
	// Bytes is how much may wait of all sources together with Block, of events as JSON,
	// more or less. One event of each source may wait in any case. Zero means 64 MiB.
	Bytes int64
	// Lists is how many sources may read their snapshots at once. Zero means 16.
	Lists int
	// OnError decides what becomes of a source that has ended with an error, which is
	// final for it: what time can heal never comes here. It is called by the goroutine
	// that ranges, once what the source told before has been yielded, and may call the
	// Mux's methods, Add and Remove among them. If it panics, the source is dropped
	// and the Logger told. Nil means Fail.
	OnError func(key string, err error) Decision
	// Logger is told of sources that end, fail and are tried again. Nil means that
	// nothing is logged.
	Logger *slog.Logger
}

// SourceOptions are those of one source. The zero value is the default.
type SourceOptions struct {
	// Overflow is Block or Latest. Empty means what Options say.
	Overflow Overflow
	// Events is as in Options. Zero means what they say.
	Events int
}

// Overflow says what becomes of events that come faster than the loop takes them.
type Overflow string

const (
	// Block makes a source wait once its share of the queue is full. Its server
	// notices, and may end the watch, which costs a GAP at worst.
	Block Overflow = "block"
	// Latest keeps for each object only what is needed to say how it is now, so that
	// the source is read on whatever the loop does: ...
	Latest Overflow = "latest"
)

// Decision says what becomes of a source that failed.
type Decision string

const (
	// Fail ends the sequence with the error. It is the default.
	Fail Decision = "fail"
	// Drop removes the source. Nothing is told of what becomes of its objects.
	Drop Decision = "drop"
	// Retry begins the source again after a random wait that grows up to 30 s: where it was, if
	// it is a Stream, or else anew.
	Retry Decision = "retry"
)
