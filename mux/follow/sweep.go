package follow

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

const (
	// requestInterval is the time between requests while nothing is due, and turnInterval the least time between two
	// checks of an area.
	requestInterval, turnInterval = 200 * time.Millisecond, 10 * time.Second
	// publishInterval is how often the answers so far are published while more is due.
	publishInterval = 10 * time.Second
	// minRetry is the wait before an area is asked again that has not answered, allows what the server refuses, or is
	// new. It doubles up to maxRetry. After maxTries, about a minute, the area is no longer due, but has its turn.
	minRetry, maxRetry, maxTries = 2 * time.Second, time.Minute, 5
	// sweepInterval is how long nothing must have been due before a change of rights makes all areas due.
	sweepInterval = time.Minute
	// maxConcurrent is how many areas are asked at once.
	maxConcurrent = 8
	// collectTime is the wait for further refusals before what is due is asked.
	collectTime = 50 * time.Millisecond
)

// run asks what may be watched, and calls watchNamespaces, from the first refusal on. The areas to ask are the
// cluster, for each denied resource, and each namespace.
//
//  1. All areas are due after a refusal, and after a right has changed. A new area is due, and one for a retry. What
//     is due is asked at once: the cluster first, then what was asked longest ago.
//  2. Then, and every publishInterval, the resources whose rights have changed are notified.
//  3. While nothing is due, what was asked longest ago is asked slowly.
func (r *rights) run(ctx context.Context, watchNamespaces func(context.Context)) {
	select {
	case <-r.wake:
		r.wake.Send()
	case <-ctx.Done():
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { watchNamespaces(ctx) })
	published := time.Now()
	var last time.Time // the last request while nothing was due
	pace := func() {
		r.pause(ctx, time.Until(last.Add(requestInterval)))
		last = time.Now()
	}
	for ctx.Err() == nil {
		select {
		case <-r.wake:
			wait.Sleep(ctx, collectTime, nil)
		default:
		}
		sweep, due, next := r.plan()
		r.askAll(ctx, due, published.Add(publishInterval))
		if len(due) == 0 || time.Since(published) >= publishInterval {
			r.publish(sweep)
			published = time.Now()
		}
		switch {
		case len(due) > 0:
		case next == nil:
			r.pause(ctx, time.Second)
		default:
			r.checker.pace = pace
			r.ask(ctx, next)
			r.checker.pace = func() {}
		}
	}
}

// pause waits, but not while a refusal or a change of the namespaces is to be handled.
func (r *rights) pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.wake:
		r.wake.Send() // for run
	case <-ctx.Done():
	}
}

// plan returns the number of the sweep, the areas that are due, and the one whose turn it is, nil for none.
func (r *rights) plan() (sweep int, due []*area, next *area) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = !r.namespaces.known
	for _, a := range r.current() {
		r.open = r.open || a.answered < r.sweeps.begun && a.tries <= maxTries
		switch waits := time.Now().Before(a.retryAt); {
		case a.sweep < r.sweeps.begun, a.asked.Before(a.retryAt) && !waits && a.tries <= maxTries:
			due = append(due, a)
		case waits, time.Since(a.asked) < turnInterval, next != nil && !a.asked.Before(next.asked):
		default:
			next = a
		}
	}
	slices.SortStableFunc(due, func(a, b *area) int {
		return cmp.Or(cmp.Compare(min(len(a.namespace), 1), min(len(b.namespace), 1)), a.asked.Compare(b.asked))
	})
	if len(due) > 0 {
		r.sweeps.lastDue = time.Now()
	}
	return r.sweeps.begun, due, next
}

// current returns the areas to ask. The caller holds r.mu.
func (r *rights) current() (all []*area) {
	var names []string
	for _, d := range r.denied {
		if len(d.selected) == 0 {
			all = append(all, &d.cluster)
		}
		if r.inNamespaces(d) {
			names = r.namespaces.toCheck()
		}
	}
	more := len(r.areas) > 0
	for _, n := range names {
		_, known := r.areas[n]
		a := r.area(nil, n)
		a.isNew = a.isNew || more && !known
		all = append(all, a)
	}
	return all
}

// inNamespaces reports whether namespaces have to be checked: not while a review allows the whole cluster, even if the
// server refuses it. Without reviews, listing is allowed there, but perhaps not watching.
func (r *rights) inNamespaces(d *denial) bool {
	cluster, reviewed := d.access[""]
	return d.resource.Namespaced && (!reviewed || !cluster.allowed && r.checker.noAccess.Load())
}

// askAll asks several areas at a time, until a time. A resource that may be watched across the cluster need not be
// checked in each namespace, so that the answers of the cluster are waited for.
func (r *rights) askAll(ctx context.Context, due []*area, end time.Time) {
	slots := make(chan struct{}, maxConcurrent)
	var running sync.WaitGroup
	defer running.Wait()
	for i, a := range due {
		if i > 0 && a.namespace != "" && due[i-1].namespace == "" {
			running.Wait()
		}
		slots <- struct{}{}
		if ctx.Err() != nil || !time.Now().Before(end) {
			return
		}
		running.Go(func() {
			defer func() { <-slots }()
			r.ask(ctx, a)
		})
	}
}

// ask asks what may be watched in an area, and records the answers.
func (r *rights) ask(ctx context.Context, a *area) {
	sweep, resources := r.begin(a)
	var found rules
	complete, missing := false, false
	if a.namespace != "" && len(resources) > 0 {
		found, complete = r.checker.rules(ctx, a.namespace)
	}
	for _, res := range resources {
		allowed, err := found.allow(res), error(nil)
		if !allowed && !complete {
			allowed, err = r.checker.mayWatch(ctx, res, a.namespace)
		}
		if ctx.Err() != nil {
			return
		}
		missing = !r.record(a, res, allowed, err) || missing
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.isNew = a.isNew && a.tries < maxTries
	switch {
	case missing, a.isNew:
		a.retryLater()
	case time.Since(a.retryAt) > maxRetry:
		a.tries = 0
	}
	if !missing {
		a.answered = sweep
	}
}

// begin records that an area is asked. It returns the number of the sweep and the resources to check.
func (r *rights) begin(a *area) (sweep int, resources []gvr.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.asked, a.sweep = time.Now(), r.sweeps.begun
	for _, d := range r.denied {
		if a == &d.cluster || a.namespace != "" && r.inNamespaces(d) {
			resources = append(resources, d.resource)
		}
	}
	return r.sweeps.begun, resources
}

// record records an answer. It returns false if there is none, or if it allows what the server has just refused.
func (r *rights) record(a *area, res gvr.Resource, allowed bool, err error) (answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[res.GroupResource()]
	if isGone := a.namespace != "" && r.areas[a.namespace] != a; d == nil || isGone {
		return true
	}
	before := d.access[a.namespace]
	switch {
	case err == nil && allowed && before.refused && time.Now().Before(a.retryAt):
		return before.allowed
	case err == nil && allowed:
		d.access[a.namespace] = access{allowed: true, refused: before.refused && time.Since(a.retryAt) < maxRetry}
	case err == nil, before.refused: // without an answer, a refusal counts
		delete(d.access, a.namespace)
		if before.refused && a.tries > 1 { // so far, reviews have allowed it
			r.sweeps.begun++
		}
	}
	if d.access[a.namespace].allowed == before.allowed {
		return err == nil
	}
	if d.changed = true; a.namespace != "" {
		d.cluster.sweep = 0 // ask: perhaps the whole cluster may be watched
	}
	if time.Since(r.sweeps.lastDue) > sweepInterval {
		r.sweeps.begun++
	}
	return err == nil
}

// publish notifies the resources whose rights have changed, or that were refused before a sweep.
func (r *rights) publish(sweep int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.denied {
		if d.sweep <= sweep && (d.changed || r.sweeps.published < d.sweep) {
			d.changed = false
			d.notify() // does not block
		}
	}
	r.sweeps.published = sweep
}
