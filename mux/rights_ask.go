package mux

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
)

// run asks until ctx ends.
func (r *rights) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var rest time.Time // that asking is not to disturb
	for {
		select {
		case <-timer.C:
		case <-r.kick:
			pause(ctx, max(askTogether, time.Until(rest)), nil)
		case <-ctx.Done():
			return
		}
		began, timely := time.Now(), true
		if r.wanting() {
			timely = r.ask(ctx)
			r.asked()
		}
		took := time.Since(began)
		if !timely { // that was waiting, not asking
			took = 0
		}
		rest = time.Now().Add(2 * took)
		timer.Reset(max(askAgain, askSlower*took))
	}
}

// round is one of asking.
type round struct {
	number     int
	resources  []denial // copies
	namespaces []string
	looked     bool

	mu   sync.Mutex
	left []question // that rules have not answered
	// unanswered has what could not be found out, and whether because no answer came in
	// time.
	unanswered map[schema.GroupResource]bool
	late       bool // one of them is
}

// question is whether a resource may be watched in a namespace.
type question struct {
	resource  gvr.Resource
	namespace string
}

func (of *round) fail(r gvr.Resource, late bool) {
	of.mu.Lock()
	defer of.mu.Unlock()
	of.unanswered[r.GroupResource()] = late || of.unanswered[r.GroupResource()]
	of.late = of.late || late
}

func (of *round) isLate(r gvr.Resource) bool {
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.unanswered[r.GroupResource()]
}

func (r *rights) round() *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun++
	of := &round{number: r.begun, looked: r.looked, unanswered: map[schema.GroupResource]bool{}}
	all := map[string]bool{}
	for _, d := range r.denied {
		of.resources = append(of.resources, denial{resource: d.resource, wanted: d.wanted})
		there := d.wanted
		if len(there) == 0 {
			there = r.namespaces
			if there == nil {
				there = r.candidates
			}
		}
		for _, n := range there {
			all[n] = true
		}
	}
	of.namespaces = slices.Sorted(maps.Keys(all))
	return of
}

// ask finds out what has changed, and tells those who are concerned: by the rules
// of each namespace, and where those do not say yes, and may not be all there are,
// one by one. It says whether all answers came in time.
func (r *rights) ask(ctx context.Context) (timely bool) {
	of := r.round()
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	var first []func()
	for _, d := range of.resources {
		if len(d.wanted) == 0 {
			first = append(first, func() { r.askOne(ctx, of, question{resource: d.resource}) })
		}
	}
	for _, n := range of.namespaces {
		first = append(first, func() { r.askRules(ctx, of, n) })
	}
	atOnce(ctx, first)
	var then []func()
	for _, q := range r.inTurn(of) {
		then = append(then, func() { r.askOne(ctx, of, q) })
	}
	atOnce(ctx, then)
	r.over(of, whole.Err() == nil, ctx.Err() == nil)
	return !of.late && ctx.Err() == nil
}

// over ends a round. Each who is concerned is told once, since to watch in other
// namespaces takes new watches in all of them.
func (r *rights) over(of *round, lives, complete bool) {
	if !lives {
		return // nobody wants to know
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.denied {
		r.gone(d)
		if d.since < of.number { // else it was denied again meanwhile
			d.changed = d.changed || r.ended <= d.since
			_, unanswered := of.unanswered[d.resource.GroupResource()]
			found := complete && !unanswered && len(of.left) <= asksInTurn
			d.asked = d.asked || of.looked && (found || of.number-d.since >= roundsInVain)
		}
		if d.changed {
			d.changed = false
			d.notify() // which does not wait
		}
	}
	r.ended = of.number
}

// atOnce does all, some at a time.
func atOnce(ctx context.Context, all []func()) {
	var running sync.WaitGroup
	defer running.Wait()
	turns := make(chan struct{}, asksAtOnce)
	for _, f := range all {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		running.Go(func() {
			defer func() { <-turns }()
			f()
		})
	}
}

// inTurn returns which questions are to be asked one by one: whether what was
// allowed still is, and of the others as many as there is time for.
func (r *rights) inTurn(of *round) []question {
	slices.SortFunc(of.left, func(a, b question) int {
		return cmp.Or(cmp.Compare(a.resource.String(), b.resource.String()), cmp.Compare(a.namespace, b.namespace))
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	var now, others []question
	for _, q := range of.left {
		if d := r.denied[q.resource.GroupResource()]; d != nil && d.allows(q.namespace) {
			now = append(now, q)
		} else {
			others = append(others, q)
		}
	}
	for range min(len(others), asksInTurn) {
		r.turn %= len(others)
		now = append(now, others[r.turn])
		r.turn++
	}
	return now
}

func (r *rights) askOne(ctx context.Context, of *round, q question) {
	if of.isLate(q.resource) { // one that does not answer is not asked again and again
		return
	}
	yes, err := r.asker.mayWatch(ctx, q.resource, q.namespace)
	if err != nil {
		of.fail(q.resource, errors.Is(err, context.DeadlineExceeded)) // it is not known, so it stays
		return
	}
	r.answer(q.resource.GroupResource(), q.namespace, yes)
}

// askRules asks for what may be done in a namespace.
func (r *rights) askRules(ctx context.Context, of *round, namespace string) {
	rules, complete := r.asker.rules(ctx, namespace)
	for _, d := range of.resources {
		if len(d.wanted) > 0 && !slices.Contains(d.wanted, namespace) || !d.resource.Namespaced {
			continue
		}
		if yes := rules.allow(d.resource); yes || complete {
			r.answer(d.resource.GroupResource(), namespace, yes)
			continue
		}
		of.mu.Lock()
		of.left = append(of.left, question{d.resource, namespace})
		of.mu.Unlock()
	}
}
