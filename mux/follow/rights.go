package follow

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// A server may allow a watch in a review and refuse the watch itself. Then the review is distrusted for minDistrust,
// twice as long after each further refusal, up to maxDistrust.
const minDistrust, maxDistrust = 4 * time.Second, 2 * time.Minute

// rights knows the resources that may not be watched everywhere, and where they may be watched.
type rights struct {
	checker *accessChecker
	checked func()        // is called after each round of checks
	wake    wait.Signal   // starts a round
	needed  chan struct{} // closed when a watch is refused

	mu         sync.Mutex
	existing   existing
	candidates []string // namespaces to check if the existing ones can't be listed
	denied     map[schema.GroupResource]*denial
	places     map[string]*asked // by namespace
	rounds     rounds
}

// existing are the namespaces of the cluster.
type existing struct {
	names []string // sorted; nil if they can't be listed
	known bool     // whether they can be listed is known
}

// denial is what is known of a resource that may not be watched where it is wanted.
type denial struct {
	resource gvr.Resource
	wanted   []string           // namespaces; none for the cluster
	access   map[string]*access // by namespace, "" for the cluster; a missing one is not allowed
	cluster  asked              // whether it may be watched across the cluster
	since    int                // rounds.begun, at the last refusal
	resolved bool               // since then everything has been answered, or not for maxUnanswered
	changed  bool               // something has changed since notify was called
	notify   func()
}

// access is whether a namespace, or the cluster, may be watched.
type access struct {
	allowed       bool
	reviewed      bool // a review has allowed it since the last refusal
	refusals      int  // in a row
	distrustUntil time.Time
}

func (d *denial) at(namespace string) *access {
	a := d.access[namespace]
	if a == nil {
		a = &access{}
		d.access[namespace] = a
	}
	return a
}

func (d *denial) allows(namespace string) bool {
	a := d.access[namespace]
	return a != nil && a.allowed
}

// trust makes a review count that has allowed it, unless reviews are distrusted. It reports whether that changes it.
func (a *access) trust() bool {
	before := a.allowed
	a.allowed = a.allowed || a.reviewed && !time.Now().Before(a.distrustUntil)
	return a.allowed != before
}

func newRights(c *accessChecker, candidates []string, checked func()) *rights {
	return &rights{
		checker: c, checked: checked, wake: wait.NewSignal(), needed: make(chan struct{}),
		candidates: candidates, denied: map[schema.GroupResource]*denial{}, places: map[string]*asked{},
	}
}

// deny records that the server has refused a watch in a namespace, or if that is empty across the cluster. wanted are
// the namespaces to watch, none for the cluster. notify is called when the rights to the resource have changed.
func (r *rights) deny(res gvr.Resource, namespace string, wanted []string, notify func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[res.GroupResource()]
	if d == nil {
		d = &denial{wanted: wanted, access: map[string]*access{}}
		for _, n := range wanted {
			d.at(n).allowed = true // until a check says otherwise
		}
		r.denied[res.GroupResource()] = d
	}
	select {
	case <-r.needed:
	default:
		close(r.needed)
	}
	d.resource, d.notify = res, notify
	a := d.at(namespace)
	switch {
	case a.refusals == 0:
		d.resolved, d.since = false, r.rounds.begun
		r.rounds.stale = r.rounds.begun
	case namespace == "": // the review is wrong again, which says nothing about the namespaces
		d.cluster.answered = 0
	}
	a.refusals++
	a.allowed, a.reviewed = false, false
	a.distrustUntil = time.Now().Add(wait.Doubled(a.refusals, minDistrust, maxDistrust))
	r.wake.Send()
}

// reset forgets everything. If nothing watches the namespaces, it is as if they could not be listed.
func (r *rights) reset(watches bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.denied)
	clear(r.places)
	r.existing, r.needed = existing{known: !watches}, make(chan struct{})
}

// forget forgets a resource that is not followed, or may be watched where it is wanted.
func (r *rights) forget(gr schema.GroupResource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.denied, gr)
}

// allowed returns whether a resource may be watched everywhere where it is wanted, and if not, in which namespaces.
func (r *rights) allowed(gr schema.GroupResource) (everywhere bool, namespaces []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[gr]
	if d == nil || d.allows("") {
		return true, nil
	}
	for n, a := range d.access {
		if a.allowed {
			namespaces = append(namespaces, n)
		}
	}
	slices.Sort(namespaces)
	if len(d.wanted) > 0 && len(namespaces) == len(d.wanted) {
		return true, nil
	}
	return false, namespaces
}

// pending reports whether a resource has been refused and no round of checks has ended since: the other namespaces may
// be refused, too.
func (r *rights) pending(gr schema.GroupResource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[gr]
	return d != nil && r.rounds.ended <= d.since
}

// unresolved reports whether a resource has been refused, and the checks since then have neither found out where it may
// be watched nor given up.
func (r *rights) unresolved(gr schema.GroupResource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[gr]
	return d != nil && !d.resolved
}

// hasDenied reports whether any resource may not be watched where it is wanted.
func (r *rights) hasDenied() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.denied) > 0
}

// watchNamespaces watches which namespaces exist, from the first refusal on.
func (r *rights) watchNamespaces(ctx context.Context, w *nameWatcher) {
	r.mu.Lock()
	needed := r.needed
	r.mu.Unlock()
	select {
	case <-needed:
		w.loop(ctx)
	case <-ctx.Done():
	}
}

// setNamespaces records which namespaces exist, or with nil that they can't be listed.
func (r *rights) setNamespaces(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.existing.known || !slices.Equal(r.existing.names, names) || (r.existing.names == nil) != (names == nil) {
		for _, n := range names {
			if _, old := slices.BinarySearch(r.existing.names, n); !old && r.existing.names != nil {
				r.places[n] = &asked{appeared: time.Now()}
			}
		}
		r.existing = existing{names: names, known: true}
		r.wake.Send()
	}
}

// exists reports whether a namespace exists. It returns true if that is not known.
func (r *rights) exists(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.existing.names == nil || slices.Contains(r.existing.names, namespace)
}

// record records the answer to a check.
func (r *rights) record(gr schema.GroupResource, namespace string, allowed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[gr]
	if d == nil {
		return
	}
	a := d.at(namespace)
	before, distrusted := a.allowed, a.refusals > 0
	if allowed {
		a.reviewed = true
		a.trust()
	} else {
		a.allowed = false
		delete(d.access, namespace) // the check agrees with the refusal
	}
	if a.allowed != before {
		d.changed = true
		if !distrusted { // else the server may refuse it again
			r.rounds.stale = r.rounds.begun
		}
	}
}

// deniedIn returns the resources to check in a namespace.
func (r *rights) deniedIn(namespace string) (resources []gvr.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.denied {
		if _, wanted := slices.BinarySearch(r.namespacesOf(d), namespace); wanted && !d.allows("") {
			resources = append(resources, d.resource)
		}
	}
	return resources
}

// removeDeleted removes namespaces that no longer exist. The caller holds r.mu.
func (r *rights) removeDeleted(d *denial) {
	if r.existing.names == nil || len(d.wanted) > 0 {
		return
	}
	for n, a := range d.access {
		if _, exists := slices.BinarySearch(r.existing.names, n); n != "" && !exists {
			d.changed = d.changed || a.allowed
			delete(d.access, n)
		}
	}
}
