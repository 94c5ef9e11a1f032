package follow

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

const (
	// roundInterval is the time between rounds of checks while something is denied. It grows with the duration of a
	// round, so that checks take at most 1/roundShare of the time.
	roundInterval = 5 * time.Second
	roundShare    = 10
	// roundTimeout bounds a round whose answers do not come.
	roundTimeout = 10 * time.Second
	// maxUnansweredRounds is how many rounds may end without an answer before nothing waits for that answer any more.
	maxUnansweredRounds = 12
	// maxConcurrent is the number of concurrent checks, and maxChecks of those in a round that rules have not answered.
	maxConcurrent, maxChecks = 8, 500
	// collectTime is the wait for further refusals before a round.
	collectTime = 50 * time.Millisecond
)

// rounds counts rounds of checks.
type rounds struct {
	begun, ended int
	next         int // the index of the next check, among those that take turns
}

// run runs rounds until ctx ends.
func (r *rights) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var pauseEnd time.Time // no round begins before
	for {
		select {
		case <-timer.C:
		case <-r.wake:
			wait.Sleep(ctx, max(collectTime, time.Until(pauseEnd)), nil)
		case <-ctx.Done():
			return
		}
		began, timely := time.Now(), true
		if r.hasDenied() {
			timely = r.check(ctx)
			r.checked()
		}
		took := time.Since(began)
		if !timely { // it was waiting for answers, not asking
			took = 0
		}
		pauseEnd = time.Now().Add(2 * took)
		timer.Reset(max(roundInterval, roundShare*took))
	}
}

// round is one round of checks.
type round struct {
	number     int
	resources  []denial // copies
	namespaces []string
	known      bool // which namespaces exist, or that they can't be listed

	mu   sync.Mutex
	left []check // that rules have not answered
	// unanswered holds the resources of failed checks, with true if an answer did not come in time.
	unanswered map[schema.GroupResource]bool
	late       bool // at least one answer did not come in time
}

// check asks whether a resource may be watched in a namespace, or if that is empty across the cluster.
type check struct {
	resource  gvr.Resource
	namespace string
}

func (rd *round) fail(r gvr.Resource, late bool) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.unanswered[r.GroupResource()] = late || rd.unanswered[r.GroupResource()]
	rd.late = rd.late || late
}

func (rd *round) isLate(r gvr.Resource) bool {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return rd.unanswered[r.GroupResource()]
}

func (r *rights) newRound() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds.begun++
	rd := &round{number: r.rounds.begun, known: r.existing.known, unanswered: map[schema.GroupResource]bool{}}
	all := map[string]bool{}
	for _, d := range r.denied {
		rd.resources = append(rd.resources, denial{resource: d.resource, wanted: d.wanted})
		names := d.wanted
		if len(names) == 0 {
			names = r.existing.names
			if names == nil {
				names = r.candidates
			}
		}
		for _, n := range names {
			all[n] = true
		}
	}
	rd.namespaces = slices.Sorted(maps.Keys(all))
	return rd
}

// check runs one round. It reports whether all answers came in time.
//
//  1. The cluster is checked for each resource, and the rules of each namespace are read.
//  2. Where rules do not allow a resource and may be incomplete, it is checked.
//  3. Each resource whose rights have changed is notified once, after all checks, so that it changes its namespaces
//     once.
func (r *rights) check(ctx context.Context) (timely bool) {
	rd := r.newRound()
	parent := ctx
	ctx, cancel := context.WithTimeout(ctx, roundTimeout)
	defer cancel()
	var first []func()
	for _, d := range rd.resources {
		if len(d.wanted) == 0 {
			first = append(first, func() { r.checkOne(ctx, rd, check{resource: d.resource}) })
		}
	}
	for _, n := range rd.namespaces {
		first = append(first, func() { r.checkRules(ctx, rd, n) })
	}
	concurrently(ctx, first)
	var second []func()
	for _, c := range r.takeTurns(rd) {
		second = append(second, func() { r.checkOne(ctx, rd, c) })
	}
	concurrently(ctx, second)
	if parent.Err() == nil {
		r.end(rd, ctx.Err() == nil)
	}
	return !rd.late && ctx.Err() == nil
}

// end records the end of a round.
func (r *rights) end(rd *round, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.denied {
		r.removeDeleted(d)
		if d.since < rd.number { // else it was refused again meanwhile
			d.changed = d.changed || r.rounds.ended <= d.since
			_, unanswered := rd.unanswered[d.resource.GroupResource()]
			found := complete && !unanswered && len(rd.left) <= maxChecks
			d.resolved = d.resolved || rd.known && (found || rd.number-d.since >= maxUnansweredRounds)
		}
		if d.changed {
			d.changed = false
			d.notify() // does not block
		}
	}
	r.rounds.ended = rd.number
}

// concurrently calls all functions, maxConcurrent at a time, unless ctx ends.
func concurrently(ctx context.Context, all []func()) {
	var running sync.WaitGroup
	defer running.Wait()
	slots := make(chan struct{}, maxConcurrent)
	for _, f := range all {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		running.Go(func() {
			defer func() { <-slots }()
			f()
		})
	}
}

// takeTurns returns the checks to make in this round, of those that rules have not answered: all that were allowed
// before, and up to maxChecks of the others, which take turns.
func (r *rights) takeTurns(rd *round) []check {
	slices.SortFunc(rd.left, func(a, b check) int {
		return cmp.Or(cmp.Compare(a.resource.String(), b.resource.String()), cmp.Compare(a.namespace, b.namespace))
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	var now, others []check
	for _, c := range rd.left {
		if d := r.denied[c.resource.GroupResource()]; d != nil && d.allows(c.namespace) {
			now = append(now, c)
		} else {
			others = append(others, c)
		}
	}
	for range min(len(others), maxChecks) {
		r.rounds.next %= len(others)
		now = append(now, others[r.rounds.next])
		r.rounds.next++
	}
	return now
}

func (r *rights) checkOne(ctx context.Context, rd *round, c check) {
	if rd.isLate(c.resource) { // an API that does not answer is asked once in a round
		return
	}
	allowed, err := r.checker.mayWatch(ctx, c.resource, c.namespace)
	if err != nil {
		rd.fail(c.resource, errors.Is(err, context.DeadlineExceeded)) // the last answer stays
		return
	}
	r.record(c.resource.GroupResource(), c.namespace, allowed)
}

// checkRules checks all resources by the rules of a namespace.
func (r *rights) checkRules(ctx context.Context, rd *round, namespace string) {
	rules, complete := r.checker.rules(ctx, namespace)
	for _, d := range rd.resources {
		if len(d.wanted) > 0 && !slices.Contains(d.wanted, namespace) || !d.resource.Namespaced {
			continue
		}
		if allowed := rules.allow(d.resource); allowed || complete {
			r.record(d.resource.GroupResource(), namespace, allowed)
			continue
		}
		rd.mu.Lock()
		rd.left = append(rd.left, check{d.resource, namespace})
		rd.mu.Unlock()
	}
}
