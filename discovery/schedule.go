package discovery

import (
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/wait"
)

const (
	// debounce is how long Refresh waits for the other events of the same change: a
	// CRD is created, then accepted, then established.
	debounce = 50 * time.Millisecond
	// Refresh causes at most one poll every refreshInterval on average. Up to refreshBurst polls may come at once,
	// because the first events of a change precede its discovery documents.
	refreshInterval = time.Second / 3
	refreshBurst    = 3
	// restFactor keeps polls from loading a slow server: the pause before the next
	// scheduled poll is at least restFactor times the duration of the last one.
	restFactor  = 3
	minInterval = 100 * time.Millisecond
	maxBackoff  = 30 * time.Second
	// jitterShare is which part of a wait that the server asks for is added at most, so that clients do not return at
	// once.
	jitterShare = 5
	// maxAsked bounds the wait that a server may ask for.
	maxAsked = time.Hour
)

// refreshDelays are the times after the last Refresh at which to poll again (see Refresh). A poll that finds a change
// does not end the series, because that change need not be the one that caused the Refresh.
var refreshDelays = [...]time.Duration{
	400 * time.Millisecond, time.Second, 1800 * time.Millisecond, 3 * time.Second, 6 * time.Second,
}

// schedule computes when the next poll is due. It reads no clock.
type schedule struct {
	refreshed    time.Time // the last Refresh
	repeated     int       // how many of the refreshDelays have had their poll since then
	pending      time.Time // the first Refresh without a poll after it; zero if none
	ended        time.Time // the end of the last poll
	took         time.Duration
	chargedUntil time.Time // each poll charges refreshInterval; in the future while polls come faster than that
	failures     int       // consecutive
	retry        time.Time // the next attempt after a failure
	notBefore    time.Time // the server asked to wait until then; zero if it did not
}

// refresh notes a call of Refresh.
func (s *schedule) refresh(now time.Time) {
	if s.pending.IsZero() {
		s.pending = now
	}
	s.refreshed, s.repeated = now, 0
}

// polled notes a poll that ended without being canceled.
func (s *schedule) polled(started, ended time.Time, failed bool) {
	if !s.pending.IsZero() && !started.Before(s.pending.Add(debounce)) {
		s.pending = time.Time{}
	}
	for s.repeats() && !started.Before(s.refreshed.Add(refreshDelays[s.repeated])) {
		s.repeated++
	}
	s.ended, s.took = ended, ended.Sub(started)
	s.chargedUntil = earlier(
		later(s.chargedUntil, started).Add(refreshInterval), started.Add(refreshBurst*refreshInterval))
	s.notBefore = time.Time{}
	if !failed {
		s.failures = 0
		return
	}
	s.failures++
	s.retry = ended.Add(backoff(s.failures))
}

// asked notes that the server has asked, in the answer to the last poll, to wait for d from now on. The next poll comes
// then, and not when the backoff ends.
func (s *schedule) asked(now time.Time, d time.Duration) {
	if d > 0 {
		s.retry = now.Add(wait.Between(d, d+d/jitterShare))
		s.notBefore = s.retry
	}
}

// repeats reports whether polls after the last Refresh remain.
func (s *schedule) repeats() bool { return !s.refreshed.IsZero() && s.repeated < len(refreshDelays) }

// next returns when to poll if a poll is wanted every interval.
func (s *schedule) next(interval time.Duration) time.Time {
	due := s.ended.Add(max(interval, minInterval, restFactor*s.took))
	if s.failures > 0 {
		due = s.retry
	}
	allowed := later(s.ended.Add(s.took), s.chargedUntil.Add(-(refreshBurst-1)*refreshInterval))
	allowed = later(allowed, s.notBefore)
	if !s.pending.IsZero() {
		due = earlier(due, later(allowed, s.pending.Add(debounce)))
	}
	if s.repeats() {
		due = earlier(due, later(allowed, s.refreshed.Add(refreshDelays[s.repeated])))
	}
	return due
}

// backoff returns a random delay below a bound that doubles with each failure ("full jitter"), so that the clients of a
// recovering server do not all return at once.
func backoff(failures int) time.Duration {
	return max(minInterval, wait.Between(0, wait.Doubled(failures, time.Second, maxBackoff)))
}

func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
func later(a, b time.Time) time.Time   { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
