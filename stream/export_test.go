package stream

import "time"

// SetRandom replaces the source of random times, so that a seed can be replayed.
func (s *Stream) SetRandom(between func(least, most time.Duration) time.Duration) {
	s.between = between
}
