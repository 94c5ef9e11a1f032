package follow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

const (
	// roundInterval is the time between rounds of checks while something is denied. It is roundShare times as long as a
	// round if that is more, up to maxRoundInterval.
	roundInterval    = 5 * time.Second
	roundShare       = 10
	maxRoundInterval = 30 * time.Second
	// roundTimeout bounds a round. The next one goes on where it ended.
	roundTimeout = 10 * time.Second
	// trickleInterval is the time between requests between rounds.
	trickleInterval = 200 * time.Millisecond
	// newNamespaceTime is how long a namespace is checked in each round after it has appeared: rights in it can be
	// granted only then.
	newNamespaceTime = time.Minute
	// maxUnanswered is how long nothing may answer a question before nothing waits for that answer any more.
	maxUnanswered = time.Minute
	// maxConcurrent is the number of concurrent questions in a round.
	maxConcurrent = 8
	// collectTime is the wait for further refusals before a round.
	collectTime = 50 * time.Millisecond
)

// rounds counts rounds of checks.
type rounds struct {
	begun, ended int
	// stale is the last round after whose beginning a watch was refused for the first time or a right was found to have
	// changed. What was answered in it, or before, is asked again.
	stale int
}

// question asks whether a resource may be watched across the cluster or, if namespace is set, which resources may be
// watched in that namespace.
type question struct {
	resource  gvr.Resource
	namespace string
	asked     *asked
}

// asked is when a question was asked.
type asked struct {
	round    int       // the last in which, or after which, it was asked
	answered int       // the last in which, or after which, it was answered
	failing  time.Time // since when it has not been answered; zero after an answer
	appeared time.Time // of a namespace; zero if it has existed from the beginning
}

// isDue reports whether a question has to be asked because its last answer is not newer than a round.
func (a *asked) isDue(stale int) bool {
	return a.answered <= stale && (a.failing.IsZero() || time.Since(a.failing) < maxUnanswered)
}

// isNew reports whether a namespace has appeared a short time ago.
func (a *asked) isNew() bool {
	return !a.appeared.IsZero() && time.Since(a.appeared) < newNamespaceTime
}

// run checks until ctx ends.
//
//  1. A round asks all questions that are due, at once. The first one is due after a refusal.
//  2. A refusal, or a right that has changed, makes all questions due, a new namespace only its own. If a
//     review allows what the server refuses, the further refusals make only the question of the cluster due.
//  3. Between rounds the questions are asked one after the other: trickle.
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
		pause := min(max(roundInterval, roundShare*took), maxRoundInterval)
		timer.Reset(pause)
		r.trickle(ctx, time.Now().Add(pause))
	}
}

// questions returns all questions, those first that were asked longest ago. The caller holds r.mu.
func (r *rights) questions() []question {
	var all []question
	places := map[string]*asked{}
	for _, d := range r.denied {
		if len(d.wanted) == 0 {
			all = append(all, question{d.resource, "", &d.cluster})
		}
		for _, n := range r.namespacesOf(d) {
			if places[n] = r.places[n]; places[n] == nil {
				places[n] = &asked{}
				r.places[n] = places[n]
			}
		}
	}
	r.places = places // without those that nothing is wanted in
	for n, a := range places {
		all = append(all, question{namespace: n, asked: a})
	}
	slices.SortFunc(all, func(a, b question) int {
		return cmp.Or(cmp.Compare(a.asked.round, b.asked.round), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.resource.Resource, b.resource.Resource), cmp.Compare(a.resource.Group, b.resource.Group))
	})
	return all
}

// namespacesOf returns the namespaces in which a resource may be watched if it may not be watched across the cluster.
// The caller holds r.mu.
func (r *rights) namespacesOf(d *denial) []string {
	switch {
	case len(d.wanted) > 0:
		return d.wanted
	case !d.resource.Namespaced:
		return nil
	case r.existing.names != nil:
		return r.existing.names
	}
	return r.candidates
}

// round is one round of checks, or what is asked between two rounds.
type round struct {
	number    int
	questions []question

	mu   sync.Mutex
	late map[schema.GroupResource]bool // resources, and rulesReviews, for which an answer did not come in time
}

// setLate records that an answer did not come in time.
func (rd *round) setLate(r schema.GroupResource) {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	rd.late[r] = true
}

func (rd *round) isLate(r schema.GroupResource) bool {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return rd.late[r]
}

// newRound returns the next round: what is due, and the new namespaces.
func (r *rights) newRound() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds.begun++
	rd := &round{number: r.rounds.begun, late: map[schema.GroupResource]bool{}}
	for _, q := range r.questions() {
		if q.asked.isDue(r.rounds.stale) || q.asked.isNew() {
			rd.questions = append(rd.questions, q)
		}
	}
	return rd
}

// check runs one round. It reports whether all answers came in time. The cluster is checked first: a resource that may
// be watched everywhere need not be checked in each namespace. Each resource whose rights have changed is notified
// once, after all checks, so that it changes its namespaces once.
func (r *rights) check(ctx context.Context) (timely bool) {
	rd := r.newRound()
	parent := ctx
	ctx, cancel := timeout(ctx, roundTimeout)
	defer cancel()
	var clusters, namespaces []func()
	for _, q := range rd.questions {
		if ask := func() { r.ask(ctx, rd, q) }; q.namespace == "" {
			clusters = append(clusters, ask)
		} else {
			namespaces = append(namespaces, ask)
		}
	}
	concurrently(ctx, clusters)
	concurrently(ctx, namespaces)
	if parent.Err() == nil {
		r.end(rd)
	}
	return len(rd.late) == 0 && ctx.Err() == nil
}

// trickle asks, until a time, one question after the other, with pauses. It ends early when run has to begin a round,
// or when a right has changed: then a round first asks whether that is a right to the whole cluster.
func (r *rights) trickle(ctx context.Context, until time.Time) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.mu.Lock()
	rd := &round{number: r.rounds.begun, questions: r.questions(), late: map[schema.GroupResource]bool{}}
	r.mu.Unlock()
	defer func() { r.checker.pace = nil }() // no check is active then, or here
	r.checker.pace = func() {
		if time.Until(until) < trickleInterval {
			cancel()
			return
		}
		select {
		case <-time.After(trickleInterval):
		case <-r.wake:
			r.wake.Send() // for run
			cancel()
		case <-ctx.Done():
		}
	}
	for _, q := range rd.questions {
		if r.ask(ctx, rd, q); ctx.Err() != nil {
			return
		}
		if r.hasChanged() {
			r.wake.Send()
			return
		}
	}
}

// hasChanged reports whether a right has changed since the last round.
func (r *rights) hasChanged() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.denied {
		if d.changed {
			return true
		}
	}
	return false
}

// end records the end of a round.
func (r *rights) end(rd *round) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.denied {
		r.removeDeleted(d)
		for _, a := range d.access {
			d.changed = a.trust() || d.changed
		}
		if d.since < rd.number { // else it was refused again meanwhile
			d.changed = d.changed || r.rounds.ended <= d.since
			open := func(q question) bool { return q.asked.isDue(d.since) }
			d.resolved = d.resolved || r.existing.known && !slices.ContainsFunc(r.questions(), open)
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

// ask asks a question, and records the answers. It stops when ctx ends; then the question counts as not asked.
func (r *rights) ask(ctx context.Context, rd *round, q question) {
	var answered bool
	if q.namespace == "" {
		answered = r.checkOne(ctx, rd, q.resource, "")
	} else {
		answered = r.checkNamespace(ctx, rd, q.namespace)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return
	case answered:
		q.asked.answered, q.asked.failing = rd.number, time.Time{}
	case q.asked.failing.IsZero():
		q.asked.failing = time.Now()
	}
	q.asked.round = rd.number
}

// checkOne checks whether a resource may be watched in a namespace, or if that is empty across the cluster. It returns
// false if that is not answered; then the last answer stays.
func (r *rights) checkOne(ctx context.Context, rd *round, res gvr.Resource, namespace string) bool {
	gr := res.GroupResource()
	if rd.isLate(gr) { // an API that does not answer is asked once in a round
		return false
	}
	allowed, err := r.checker.mayWatch(ctx, res, namespace)
	if errors.Is(err, context.DeadlineExceeded) {
		rd.setLate(gr)
	}
	if err == nil {
		r.record(gr, namespace, allowed)
	}
	return err == nil
}

// checkNamespace checks, by the rules of a namespace, the resources that are wanted there. What the rules do not allow
// is checked by itself if they may be incomplete.
func (r *rights) checkNamespace(ctx context.Context, rd *round, namespace string) (answered bool) {
	resources := r.deniedIn(namespace)
	if len(resources) == 0 {
		return true
	}
	var found rules
	complete := false
	if late := rulesReviews.GroupResource(); r.checker.hasRules() && !rd.isLate(late) {
		var err error
		if found, complete, err = r.checker.rules(ctx, namespace); errors.Is(err, context.DeadlineExceeded) {
			rd.setLate(late)
		}
	}
	answered = true
	for _, res := range resources {
		if allowed := found.allow(res); allowed || complete {
			r.record(res.GroupResource(), namespace, allowed)
		} else if !r.checkOne(ctx, rd, res, namespace) {
			answered = false
		}
	}
	return answered
}
