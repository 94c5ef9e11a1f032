package discovery

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// poll is one reading of the server's discovery documents.
type poll struct {
	number  uint64 // the first is 1
	started time.Time
	catalog *catalog
	err     error
}

// polls are the polls of a Resolver. Its mu guards them.
type polls struct {
	started   uint64 // how many
	running   *poll  // nil between polls
	completed *poll  // the last that was not canceled, successful or failed
	succeeded *poll  // the last with a catalog
	outdated  uint64 // polls up to this number started before a Refresh
}

// start starts a poll, which the caller must run. No other poll may be running.
func (ps *polls) start() *poll {
	ps.started++
	ps.running = &poll{number: ps.started, started: time.Now()}
	return ps.running
}

// end ends the running poll. It reports whether the poll completed; one without a catalog and an error was canceled.
func (ps *polls) end() (completed bool) {
	p := ps.running
	ps.running = nil
	if p.catalog != nil {
		ps.succeeded = p
	}
	if completed = p.catalog != nil || p.err != nil; completed {
		ps.completed = p
	}
	return completed
}

// after returns a completed poll with a number above n, or nil. It prefers a
// success to a later failure, which the next call returns.
func (ps *polls) after(n uint64) *poll {
	for _, p := range []*poll{ps.succeeded, ps.completed} {
		if p != nil && p.number > n {
			return p
		}
	}
	return nil
}

// cacheIncompleteFor is how long a poll is reused if an API could not be read: the
// API may be back and have a better match.
const cacheIncompleteFor = 5 * time.Second

// cached returns the last successful poll if it may be reused, or nil.
func (ps *polls) cached(cacheFor time.Duration) *poll {
	p := ps.succeeded
	if p == nil || p.number <= ps.outdated {
		return nil
	}
	if len(p.catalog.failed) > 0 {
		cacheFor = min(cacheFor, cacheIncompleteFor)
	}
	if time.Since(p.started) >= cacheFor {
		return nil
	}
	return p
}

// await returns a completed poll with a number above n, successful or failed. If no other caller polls, it does so
// itself: immediately, or as the schedule and poll say.
func (r *Resolver) await(ctx context.Context, n uint64, immediately bool, poll func() time.Duration) (*poll, error) {
	jitter := 0.9 + 0.2*rand.Float64()
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		s := r.nextStep(n, immediately, time.Duration(float64(interval(poll))*jitter))
		switch {
		case s.completed != nil:
			return s.completed, nil
		case s.run != nil:
			r.run(ctx, s.run)
		default:
			wait.Sleep(ctx, s.most, s.updated)
		}
	}
}

// step is what a caller that awaits a poll does next: return completed, run a poll, or wait until updated is closed.
type step struct {
	completed *poll
	run       *poll
	updated   <-chan struct{}
	most      time.Duration // how long to wait: until a poll is due; for ever while another caller polls
}

func (r *Resolver) nextStep(n uint64, immediately bool, interval time.Duration) step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.polls.after(n); p != nil {
		return step{completed: p}
	}
	if r.polls.running != nil {
		return step{updated: r.updated, most: math.MaxInt64}
	}
	if due := r.schedule.next(interval); !immediately && due.After(time.Now()) {
		return step{updated: r.updated, most: time.Until(due)}
	}
	return step{run: r.polls.start()}
}

// run runs p, which is the running poll. The poll counts as canceled if ctx ends first or if the client panics.
func (r *Resolver) run(ctx context.Context, p *poll) {
	defer func() { // deferred so that a panic does not block the other callers for ever
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.polls.end() {
			r.schedule.polled(p.started, time.Now(), p.err != nil)
			r.schedule.asked(time.Now(), retryAfter(p.err))
		}
		r.wake()
	}()
	var c *catalog
	err := guard.Insist(ctx, func() (err error) {
		c, err = read(ctx, r.client, r.calling)
		return err
	})
	if ctx.Err() != nil && (err != nil || len(c.failed) > 0) {
		return // APIs that a canceled poll did not read are not down
	}
	p.catalog, p.err = c, err
}

// wake wakes the callers that await a poll. The caller holds r.mu.
func (r *Resolver) wake() {
	close(r.updated)
	r.updated = make(chan struct{})
}

// retryAfter returns how long the server asks to wait; 0 if it does not.
func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(max(seconds, 0))*time.Second, maxAsked)
}
