package mux

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
)

const (
	// askAgain is how often it is asked anew who may watch what, while somebody may
	// not. If the answers take long it is asked less often, so that asking takes no
	// more than a tenth of the time.
	askAgain = 5 * time.Second
	// askSlower is the share of the time.
	askSlower = 10
	// asksAtOnce is how many questions are under way.
	asksAtOnce = 8
	// Where the server says yes to the question and no to the watch, the watch is
	// believed, for so long at first, and up to so long.
	doubtFor, doubtForMost = 4 * time.Second, 2 * time.Minute
)

// rights knows where resources may be watched that may not be watched everywhere.
type rights struct {
	asker  asker
	asked  func()        // is called after each round of questions
	kick   chan struct{} // of capacity one: ask now
	needed chan struct{} // closed when somebody was denied something

	mu         sync.Mutex
	namespaces []string // there are, sorted; nil if they can't be listed
	candidates []string // to try then
	denied     map[schema.GroupResource]*denial
}

// denial is what is known of a resource that may not be watched where it was
// wanted.
type denial struct {
	resource gvr.Resource
	wanted   []string // namespaces; none for the cluster
	cluster  bool     // it may be watched everywhere, again
	allowed  map[string]bool
	asked    bool              // there was a round since
	doubts   map[string]*doubt // by namespace, "" for the cluster
	notify   func()
}

// doubt is about a yes.
type doubt struct {
	until time.Time
	times int
}

func newRights(a asker, candidates []string, asked func()) *rights {
	return &rights{asker: a, asked: asked, kick: make(chan struct{}, 1), needed: make(chan struct{}),
		candidates: candidates, denied: map[schema.GroupResource]*denial{}}
}

// deny says that r may not be watched in a namespace, or if that is empty across
// the cluster, of those that are wanted. From now on notify is called when that has
// changed.
func (r *rights) deny(res gvr.Resource, namespace string, wanted []string, notify func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[res.GroupResource()]
	if d == nil {
		d = &denial{resource: res, wanted: wanted, allowed: map[string]bool{}, doubts: map[string]*doubt{}}
		for _, n := range wanted {
			d.allowed[n] = true // until it is known better
		}
		r.denied[res.GroupResource()] = d
	}
	select {
	case <-r.needed:
	default:
		close(r.needed)
	}
	d.resource, d.notify, d.asked = res, notify, false
	if namespace == "" {
		d.cluster = false
	} else {
		delete(d.allowed, namespace)
	}
	of := d.doubts[namespace]
	if of == nil {
		of = &doubt{}
		d.doubts[namespace] = of
	}
	of.until = time.Now().Add(min(doubtFor<<of.times, doubtForMost))
	of.times = min(of.times+1, 10)
	r.askNow()
}

// forget says that nobody is interested in a resource any more, or that it may be
// watched where it is wanted.
func (r *rights) forget(gr schema.GroupResource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.denied, gr)
}

// of returns where a resource may be watched: everywhere that is wanted, or in
// some namespaces.
func (r *rights) of(gr schema.GroupResource) (everywhere bool, namespaces []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[gr]
	if d == nil {
		return true, nil
	}
	if d.cluster {
		return true, nil
	}
	for n := range d.allowed {
		namespaces = append(namespaces, n)
	}
	slices.Sort(namespaces)
	if len(d.wanted) > 0 && len(namespaces) == len(d.wanted) {
		return true, nil
	}
	return false, namespaces
}

// unsure says whether a resource was denied, and it has not been asked yet where it
// may be watched.
func (r *rights) unsure(gr schema.GroupResource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[gr]
	return d != nil && !d.asked
}

// lookOut watches which namespaces there are, once that is of interest.
func (r *rights) lookOut(ctx context.Context, l *lookout) {
	select {
	case <-r.needed:
		l.run(ctx)
	case <-ctx.Done():
	}
}

// exists says whether a namespace exists, as far as anybody may know.
func (r *rights) exists(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.namespaces == nil || slices.Contains(r.namespaces, namespace)
}

// known says which namespaces there are; nil that nobody may know.
func (r *rights) known(namespaces []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.namespaces, namespaces) || (r.namespaces == nil) != (namespaces == nil) {
		r.namespaces = namespaces
		r.askNow()
	}
}

func (r *rights) askNow() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// wanting says whether anybody may not watch what is wanted.
func (r *rights) wanting() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.denied) > 0
}

// run asks until ctx ends.
func (r *rights) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.kick:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		if r.wanting() {
			r.ask(ctx)
			r.asked()
		}
		timer.Reset(max(askAgain, askSlower*time.Since(began)))
	}
}

// round is one of asking.
type round struct {
	resources  []denial // copies, without what changes
	namespaces []string
}

func (r *rights) round() round {
	r.mu.Lock()
	defer r.mu.Unlock()
	var of round
	all := map[string]bool{}
	for _, d := range r.denied {
		of.resources = append(of.resources, denial{resource: d.resource, wanted: d.wanted})
		for _, n := range d.wanted {
			all[n] = true
		}
		if len(d.wanted) > 0 {
			continue
		}
		there := r.namespaces
		if there == nil {
			there = r.candidates
		}
		for _, n := range there {
			all[n] = true
		}
	}
	for n := range all {
		of.namespaces = append(of.namespaces, n)
	}
	slices.Sort(of.namespaces)
	return of
}

// ask finds out what has changed, and tells those who are concerned.
func (r *rights) ask(ctx context.Context) {
	of := r.round()
	var running sync.WaitGroup
	turns := make(chan struct{}, asksAtOnce)
	inTurn := func(f func()) {
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
	for _, d := range of.resources {
		if len(d.wanted) > 0 {
			continue
		}
		inTurn(func() {
			if yes, err := r.asker.mayWatch(ctx, d.resource, ""); err == nil {
				r.answer(d.resource.GroupResource(), "", yes)
			}
		})
	}
	for _, n := range of.namespaces {
		inTurn(func() { r.askOf(ctx, n, of.resources) })
	}
	running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range of.resources {
		if d := r.denied[d.resource.GroupResource()]; d != nil {
			d.asked = ctx.Err() == nil
			r.gone(d)
		}
	}
}

// askOf asks for what may be watched in a namespace.
func (r *rights) askOf(ctx context.Context, namespace string, resources []denial) {
	rules, complete := r.asker.rules(ctx, namespace)
	for _, d := range resources {
		if len(d.wanted) > 0 && !slices.Contains(d.wanted, namespace) || !d.resource.Namespaced {
			continue
		}
		yes := rules.allow(d.resource)
		if !yes && !complete {
			var err error
			if yes, err = r.asker.mayWatch(ctx, d.resource, namespace); err != nil {
				continue // it is not known, so it stays
			}
		}
		r.answer(d.resource.GroupResource(), namespace, yes)
	}
}

// answer takes an answer in.
func (r *rights) answer(gr schema.GroupResource, namespace string, yes bool) {
	r.mu.Lock()
	d := r.denied[gr]
	if d == nil {
		r.mu.Unlock()
		return
	}
	if of := d.doubts[namespace]; yes && of != nil && time.Now().Before(of.until) {
		r.mu.Unlock()
		return
	}
	if !yes {
		delete(d.doubts, namespace) // they agree
	}
	var notify func()
	switch {
	case namespace == "" && d.cluster != yes:
		d.cluster, notify = yes, d.notify
	case namespace != "" && d.allowed[namespace] != yes:
		notify = d.notify
		if yes {
			d.allowed[namespace] = true
		} else {
			delete(d.allowed, namespace)
		}
	}
	r.mu.Unlock()
	if notify != nil {
		notify()
	}
}

// gone forgets namespaces that are no more. r.mu is held.
func (r *rights) gone(d *denial) {
	if r.namespaces == nil || len(d.wanted) > 0 {
		return
	}
	for n := range d.allowed {
		if !slices.Contains(r.namespaces, n) {
			delete(d.allowed, n)
			d.notify()
		}
	}
}
