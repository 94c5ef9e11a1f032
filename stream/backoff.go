package stream

import (
	"math/rand/v2"
	"time"
)

const (
	// A server that sends an event and closes, every time, is asked again after
	// 0.8 s on average: the second wait, over and over.
	firstBackoff = 800 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// backoff is the wait before attempt n, 1 being the first repetition: a random
// time up to a bound that doubles ("full jitter"), so that the clients of a
// server that comes back do not come back together.
func backoff(n int) time.Duration {
	bound := firstBackoff << min(max(n-1, 0), 10)
	return rand.N(min(bound, maxBackoff) + 1)
}
