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
	asker  *asker
	asked  func()        // is called after each round of questions
	kick   chan struct{} // of capacity one: ask now
	needed chan struct{} // closed when somebody was denied something

	mu         sync.Mutex
	namespaces []string // there are, sorted; nil if they can't be listed
	looked     bool     // whether they can be is known
	candidates []string // to try then
	denied     map[schema.GroupResource]*denial

	begun, ended int // rounds of questions
	turn         int // of the questions that are asked in turn
}

// denial is what is known of a resource that may not be watched where it was
// wanted.
type denial struct {
	resource gvr.Resource
	wanted   []string          // namespaces; none for the cluster
	places   map[string]*place // by namespace, "" for the cluster
	since    int               // rights.begun, when it was denied last
	asked    bool              // all has been answered in a round since then, or not for several
	changed  bool              // something of it has, in the round that runs
	notify   func()
}

// place is a namespace, or the cluster. What is not known of may not be watched.
type place struct {
	allowed bool
	denials int       // in a row
	until   time.Time // a yes is not believed
}

func (d *denial) place(namespace string) *place {
	p := d.places[namespace]
	if p == nil {
		p = &place{}
		d.places[namespace] = p
	}
	return p
}

func (d *denial) allows(namespace string) bool {
	p := d.places[namespace]
	return p != nil && p.allowed
}

func newRights(a *asker, candidates []string, asked func()) *rights {
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
		d = &denial{wanted: wanted, places: map[string]*place{}}
		for _, n := range wanted {
			d.place(n).allowed = true // until it is known better
		}
		r.denied[res.GroupResource()] = d
	}
	select {
	case <-r.needed:
	default:
		close(r.needed)
	}
	d.resource, d.notify, d.asked, d.since = res, notify, false, r.begun
	p := d.place(namespace)
	p.allowed, p.until = false, time.Now().Add(min(doubtFor<<min(p.denials, 10), doubtForMost))
	p.denials++
	signal(r.kick)
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
	if d == nil || d.allows("") {
		return true, nil
	}
	for n, p := range d.places {
		if p.allowed {
			namespaces = append(namespaces, n)
		}
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
	return d != nil && r.ended <= d.since
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
		signal(r.kick)
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
	if d == nil || yes && d.places[namespace] != nil && time.Now().Before(d.places[namespace].until) {
		return
	}
	d.changed = d.changed || d.allows(namespace) != yes
	if yes {
		d.place(namespace).allowed = true
	} else {
		delete(d.places, namespace) // they agree
	}
}

// gone forgets namespaces that are no more. r.mu is held.
func (r *rights) gone(d *denial) {
	if r.namespaces == nil || len(d.wanted) > 0 {
		return
	}
	for n, p := range d.places {
		if p.allowed && n != "" && !slices.Contains(r.namespaces, n) {
			p.allowed, d.changed = false, true
		}
	}
}
