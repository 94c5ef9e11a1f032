package follow

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// rights finds out where resources may be watched that may not be watched everywhere: see run.
type rights struct {
	checker *accessChecker
	wake    wait.Signal // sent after a refusal and a change of the namespaces

	mu         sync.Mutex
	namespaces namespaceNames
	denied     map[schema.GroupResource]*denial
	areas      map[string]*area // by namespace
	sweeps     sweeps
	open       bool // some area has neither answered nor been given up
}

type namespaceNames struct {
	selected   []string // those in which namespaced resources are wanted; none for the cluster
	candidates []string // those to check if the existing ones can't be listed
	existing   []string // sorted; nil if they can't be listed
	known      bool     // whether they can be listed is known
}

// toCheck returns the namespaces to check if the cluster may not be watched.
func (n *namespaceNames) toCheck() []string {
	switch {
	case len(n.selected) > 0:
		return n.selected
	case n.existing != nil:
		return n.existing
	}
	return n.candidates
}

// sweeps counts how often all areas have become due.
type sweeps struct {
	begun, published int
	lastDue          time.Time // when any area was due last
}

// denial is what is known of a resource that may not be watched where it is wanted.
type denial struct {
	resource gvr.Resource
	selected []string          // namespaces in which it is wanted; none for the cluster
	access   map[string]access // by namespace, "" for the cluster; a missing one is not allowed
	cluster  area
	sweep    int  // the one that its last refusal has begun
	changed  bool // access has changed since notify was called
	notify   func()
}

type access struct {
	allowed bool
	refused bool // the server refuses the watch, and no review has agreed with that
}

// area is where to ask what may be watched: the cluster, for one resource, or a namespace, for all.
type area struct {
	namespace string
	isNew     bool      // the namespace appeared about a minute ago at most: rights in it may be granted only now
	asked     time.Time // when it was asked last
	sweep     int       // the last in which it was asked
	answered  int       // the last in which that was answered
	tries     int       // how often it has to be asked again, in a row
	retryAt   time.Time // when
}

func (a *area) retryLater() {
	a.tries++
	a.retryAt = time.Now().Add(wait.Doubled(a.tries, minRetry, maxRetry))
}

func newRights(c *accessChecker, selected, candidates []string) *rights {
	r := &rights{checker: c, wake: wait.NewSignal()}
	r.namespaces.selected, r.namespaces.candidates = selected, candidates
	r.reset(true)
	return r
}

// reset forgets everything. If nothing watches the namespaces, it is as if they could not be listed.
func (r *rights) reset(watches bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.denied, r.areas, r.sweeps = map[schema.GroupResource]*denial{}, map[string]*area{}, sweeps{}
	r.namespaces.existing, r.namespaces.known, r.open = nil, !watches, false
}

// deny records that the server has refused a watch in a namespace, or if that is empty across the cluster. notify is
// called when the rights to the resource have changed.
func (r *rights) deny(res gvr.Resource, namespace string, notify func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[res.GroupResource()]
	if d == nil {
		d = &denial{access: map[string]access{namespace: {allowed: true}}}
		if res.Namespaced {
			d.selected = r.namespaces.selected
		}
		for _, n := range d.selected {
			d.access[n] = access{allowed: true} // until a check says otherwise
		}
		r.denied[res.GroupResource()] = d
	}
	d.resource, d.notify = res, notify
	a, known := d.access[namespace]
	if !known {
		return // a review has said so
	}
	if !a.refused {
		r.sweeps.begun++
		d.sweep = r.sweeps.begun
	}
	d.access[namespace] = access{refused: true}
	at := r.area(d, namespace)
	at.retryLater()
	at.answered, r.open = 0, true
	r.wake.Send()
}

// area returns the area of a namespace, or if that is empty of the cluster. The caller holds r.mu.
func (r *rights) area(d *denial, namespace string) *area {
	if namespace == "" {
		return &d.cluster
	}
	if r.areas[namespace] == nil {
		r.areas[namespace] = &area{namespace: namespace}
	}
	return r.areas[namespace]
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
	if d == nil || d.access[""].allowed {
		return true, nil
	}
	for n, a := range d.access {
		if a.allowed {
			namespaces = append(namespaces, n)
		}
	}
	if len(d.selected) > 0 && len(namespaces) == len(d.selected) {
		return true, nil
	}
	return false, namespaces
}

// pending reports whether a resource has been refused and nothing has been published since: the other namespaces may be
// refused, too.
func (r *rights) pending(gr schema.GroupResource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.denied[gr]
	return d != nil && r.sweeps.published < d.sweep
}

// unresolved reports whether something is not known yet that can be found out.
func (r *rights) unresolved() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

// setNamespaces records which namespaces exist, or with nil that they can't be listed.
func (r *rights) setNamespaces(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := &r.namespaces
	if all.known && slices.Equal(all.existing, names) {
		return
	}
	all.existing, all.known = names, true
	isGone := func(n string) bool {
		_, found := slices.BinarySearch(names, n)
		return names != nil && n != "" && !found
	}
	maps.DeleteFunc(r.areas, func(n string, _ *area) bool { return isGone(n) })
	for _, d := range r.denied {
		maps.DeleteFunc(d.access, func(n string, a access) bool {
			d.changed = d.changed || a.allowed && isGone(n)
			return isGone(n)
		})
	}
	r.wake.Send()
}

// exists reports whether a namespace exists. It returns true if that is not known.
func (r *rights) exists(namespace string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.namespaces.existing == nil || slices.Contains(r.namespaces.existing, namespace)
}
