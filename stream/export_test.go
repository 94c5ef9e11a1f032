package stream

import (
	"context"
	"iter"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/host"
)

// SetRandom replaces the source of random waits, so that a test can replay a seed.
func (s *Stream) SetRandom(between func(least, most time.Duration) time.Duration) {
	s.jitter = between
}

// EventsWith is Events with options for one run.
func (s *Stream) EventsWith(ctx context.Context, o host.Run) iter.Seq2[Event, error] {
	return s.eventsWith(ctx, o)
}
