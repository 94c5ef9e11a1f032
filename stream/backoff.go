package stream

import (
	"math/rand/v2"
	"time"
)

const (
	// The first attempt comes soon: most failures are a server that restarts or a
	// connection that broke. A server that sends an event and closes, every time, is
	// asked two things after the second wait, over and over: 0.8 s on average.
	firstBackoff = 200 * time.Millisecond
	nextBackoff  = 1600 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// What was refused is asked for again more slowly, but so that rights that come
	// back are noticed within a quarter of a minute.
	slowBackoff    = 2 * time.Second
	maxSlowBackoff = 15 * time.Second
)

// backoff bounds the wait before attempt n, 1 being the first repetition: a
// random time up to a bound that doubles ("full jitter"), so that the clients of a
// server that comes back do not come back together.
func backoff(n int) (least, most time.Duration) {
	if n <= 1 {
		return 0, firstBackoff
	}
	return 0, min(nextBackoff<<min(n-2, 10), maxBackoff)
}

// refusedBackoff bounds the wait after attempt n was refused.
func refusedBackoff(n int) (least, most time.Duration) {
	most = min(slowBackoff<<min(max(n-1, 0), 10), maxSlowBackoff)
	return most / 2, most
}

// between is a random time.
func between(least, most time.Duration) time.Duration {
	return least + rand.N(most-least+1)
}
