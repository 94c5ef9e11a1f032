package acks

import "weak"

// Released returns a function that reports whether what s knows is no longer in memory.
func Released(s *Session) func() bool {
	w := weak.Make(s.ledger)
	return func() bool { return w.Value() == nil }
}
