// Package wait holds what this module waits with: a signal that wakes a goroutine, an interruptible sleep,
// and the lengths of repeated waits.
package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// Signal wakes a goroutine that receives from it. It holds one value at most, so Send never blocks, and several
// Sends before the goroutine receives wake it once.
type Signal chan struct{}

// NewSignal returns a Signal without a value.
func NewSignal() Signal { return make(Signal, 1) }

// Send leaves a value in s unless it holds one.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Sleep waits for d or for a value from wake, which may be nil. It returns false if ctx ends first. A d of zero returns
// true at once.
func Sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-wake:
		return true
	case <-ctx.Done():
		return false
	}
}

// Doubled returns first, doubled with each attempt after the first up to most. Attempts count from 1.
func Doubled(attempt int, first, most time.Duration) time.Duration {
	return min(first<<min(max(attempt-1, 0), 10), most)
}

// Raised returns first, raised by a quarter with each attempt after the first up to most. Attempts count from 1.
func Raised(attempt int, first, most time.Duration) time.Duration {
	for d := first; ; d += d / 4 {
		if attempt--; attempt <= 0 || d >= most {
			return min(d, most)
		}
	}
}

// Between returns a random duration, so that clients that failed together do not retry together.
func Between(least, most time.Duration) time.Duration { return least + rand.N(most-least+1) }
