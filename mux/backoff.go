package mux

import (
	"math/rand/v2"
	"time"
)

const (
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// healthy is how long a source must tell for its failures to be forgotten.
	healthy = time.Minute
)

// backoff is the wait before attempt n, 1 being the first repetition: a random time
// up to a bound that doubles ("full jitter"), so that sources that failed together
// do not come back together.
func backoff(n int) time.Duration {
	most := min(firstBackoff<<min(max(n-1, 0), 10), maxBackoff)
	return rand.N(most + 1)
}
