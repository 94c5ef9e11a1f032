package screen

import (
	"sync"
	"time"
)

// Rate measures how many events there were per second in the last 4.5 to 5 seconds. The zero value is ready for use,
// from any goroutine.
type Rate struct {
	mu     sync.Mutex
	began  time.Time // of the first call
	step   int       // since then
	counts [10]int   // of the last steps
}

const rateStep = time.Second / 2

// Add counts n events that occurred now.
func (r *Rate) Add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.advance()
	r.counts[r.step%len(r.counts)] += n
}

// PerSecond returns the mean of the last 4.5 to 5 seconds, or of the time since the first call if that is less, but of
// at least one second, so that a few early events are no high rate.
func (r *Rate) PerSecond() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := r.advance()
	total := 0
	for _, n := range r.counts {
		total += n
	}
	covered := age
	if full := len(r.counts) - 1; r.step > full {
		covered = time.Duration(full)*rateStep + age%rateStep
	}
	return float64(total) / max(covered, time.Second).Seconds()
}

// advance empties the counts of steps that have begun, and returns the time since the first call.
func (r *Rate) advance() time.Duration {
	if r.began.IsZero() {
		r.began = time.Now()
	}
	age := time.Since(r.began)
	now := int(age / rateStep)
	for r.step = max(r.step, now-len(r.counts)); r.step < now; {
		r.step++
		r.counts[r.step%len(r.counts)] = 0
	}
	return age
}
