package discovery

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// One change to the types comes as several events: a CRD that is created, accepted
	// and established.
	debounce = 50 * time.Millisecond
	// However often the Resolver is kicked, it looks no oftener than that for long. A
	// few looks may come at once: the first events of a change tell too early.
	kickedEvery = time.Second / 3
	kickedBurst = 3
	// A server that takes long to answer a look is not to be kept busy by them.
	restPerLook = 3
	minPoll     = 100 * time.Millisecond
	maxBackoff  = 30 * time.Second
)

// again is how long after the last kick there is another look: what a server
// serves comes into its discovery documents later, on an idle one by up to 1.7 s
// and on a busy one by more. A look that finds something ends nothing, as it
// can't know whether that is what the kick was about.
var again = [...]time.Duration{
	400 * time.Millisecond, time.Second, 1800 * time.Millisecond, 3 * time.Second, 6 * time.Second,
}

// pace knows when the next look is due. It reads no clock.
type pace struct {
	kicked   time.Time // the last kick
	done     int       // of again, since then
	waiting  time.Time // the first kick that no look has followed; zero if there is none
	ended    time.Time // the last look
	spent    time.Time // when looks every kickedEvery would have come to the number made
	took     time.Duration
	failures int // in a row
	retry    time.Time
}

func (p *pace) kick(now time.Time) {
	if p.waiting.IsZero() {
		p.waiting = now
	}
	p.kicked, p.done = now, 0
}

// looked notes a look that was not given up.
func (p *pace) looked(began, ended time.Time, failed bool) {
	if !p.waiting.IsZero() && !began.Before(p.waiting.Add(debounce)) {
		p.waiting = time.Time{}
	}
	for p.repeats() && !began.Before(p.kicked.Add(again[p.done])) {
		p.done++
	}
	p.ended, p.took = ended, ended.Sub(began)
	p.spent = earlier(later(p.spent, began).Add(kickedEvery), began.Add(kickedBurst*kickedEvery))
	if !failed {
		p.failures = 0
		return
	}
	p.failures++
	p.retry = ended.Add(backoff(p.failures))
}

func (p *pace) repeats() bool { return !p.kicked.IsZero() && p.done < len(again) }

// next is when to look, for one who wants to know every poll.
func (p *pace) next(poll time.Duration) time.Time {
	due := p.ended.Add(max(poll, minPoll, restPerLook*p.took))
	if p.failures > 0 {
		due = p.retry
	}
	rested := later(p.ended.Add(p.took), p.spent.Add(-(kickedBurst-1)*kickedEvery))
	if !p.waiting.IsZero() {
		due = earlier(due, later(rested, p.waiting.Add(debounce)))
	}
	if p.repeats() {
		due = earlier(due, later(rested, p.kicked.Add(again[p.done])))
	}
	return due
}

// backoff is how long to wait after so many failures: a random time up to a bound
// that doubles ("full jitter"), so that the clients of a server that comes back do
// not come back together.
func backoff(failures int) time.Duration {
	most := min(time.Second<<min(failures-1, 10), maxBackoff)
	return max(minPoll, rand.N(most))
}

func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
func later(a, b time.Time) time.Time   { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }
