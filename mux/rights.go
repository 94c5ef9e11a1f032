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
	// asksAtOnce is how many questions are under way, and asksInTurn how many are asked
	// in one round that rules have not answered.
	asksAtOnce, asksInTurn = 8, 500
	// roundTime is how long a round may take, if answers do not come.
	roundTime = 10 * time.Second
	// roundsInVain is after how many an answer is not waited for any more.
	roundsInVain = 12
	// askTogether is how long those are waited for who are denied at the same time.
	askTogether = 50 * time.Millisecond
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
	looked     bool     // whether they can be is known
	candidates []string // to try then
	denied     map[schema.GroupResource]*denial
	turn       int // of the questions that are asked in turn
	turns      int // how often all of them have been
}

// denial is what is known of a resource that may not be watched where it was
// wanted.
type denial struct {
	resource gvr.Resource
	wanted   []string // namespaces; none for the cluster
	cluster  bool     // it may be watched everywhere, again
	allowed  map[string]bool
	denials  int               // so far
	turns    int               // rights.turns, at the last of them
	rounds   int               // of questions since then
	asked    bool              // all have been answered in one, or not for several
	changed  bool              // something of it has, in the round that runs
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
	d.resource, d.notify, d.rounds, d.asked = res, notify, 0, false
	d.denials++
	d.turns = r.turns
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

// reset forgets everything. What can be known of namespaces is known already if
// nobody is going to look.
func (r *rights) reset(looks bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.denied)
	r.namespaces, r.looked, r.needed = nil, !looks, make(chan struct{})
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

// pending says whether a resource was denied, and it is being asked where it may be
// watched: what was refused in one namespace may have been in all.
func (r *rights) pending(gr schema.GroupResource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[gr]
	return d != nil && d.rounds == 0
}

// unsure says whether a resource was denied, and it has not been found out yet
// where it may be watched, nor that this can't be found out.
func (r *rights) unsure(gr schema.GroupResource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[gr]
	return d != nil && !d.asked
}

// lookOut watches which namespaces there are, once that is of interest.
func (r *rights) lookOut(ctx context.Context, l *lookout) {
	r.mu.Lock()
	needed := r.needed
	r.mu.Unlock()
	select {
	case <-needed:
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
	if !r.looked || !slices.Equal(r.namespaces, namespaces) || (r.namespaces == nil) != (namespaces == nil) {
		r.namespaces, r.looked = namespaces, true
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

// answer takes an answer in.
func (r *rights) answer(gr schema.GroupResource, namespace string, yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[gr]
	if d == nil {
		return
	}
	if of := d.doubts[namespace]; yes && of != nil && time.Now().Before(of.until) {
		return
	}
	if !yes {
		delete(d.doubts, namespace) // they agree
	}
	switch {
	case namespace == "" && d.cluster != yes:
		d.cluster, d.changed = yes, true
	case namespace != "" && d.allowed[namespace] != yes:
		d.changed = true
		if yes {
			d.allowed[namespace] = true
		} else {
			delete(d.allowed, namespace)
		}
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
			d.changed = true
		}
	}
}
