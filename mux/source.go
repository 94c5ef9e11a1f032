package mux

import (
	"context"
	"iter"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Source is a sequence that a Mux merges with others. A *stream.Stream is one.
type Source interface {
	// Key tells the source from the others of the Mux. It is always the same.
	Key() string
	// Events is as that of a Stream: an error is the last thing it yields; it ends
	// soon when ctx does; it may be ranged over again, one range at a time.
	Events(ctx context.Context) iter.Seq2[stream.Event, error]
}

// resumable is a Source that can go on where it was, and share what it uses, as a
// *stream.Stream can.
type resumable interface {
	Source
	EventsWith(context.Context, stream.Range) iter.Seq2[stream.Event, error]
	Position() checkpoint.Position
}

// reporting is a Source whose Status says what it is doing.
type reporting interface{ Status() stream.Status }
