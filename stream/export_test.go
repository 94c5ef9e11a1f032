package stream

import "time"

// SetRandom replaces the source of random waits, so that a test can replay a seed.
func (s *Stream) SetRandom(between func(least, most time.Duration) time.Duration) {
	s.target.Between = between
}

// ErrorOf returns the error about the Run of a Sequence.
func ErrorOf(q *Sequence) error { return q.err }
