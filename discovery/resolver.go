package discovery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// Options change a Resolver. The zero value is the default.
type Options struct {
	// CacheFor is how long an answer of the server is used again. Zero means one
	// minute; a negative value asks the server every time.
	CacheFor time.Duration
}

func (o *Options) cacheFor() time.Duration {
	if o == nil || o.CacheFor == 0 {
		return time.Minute
	}
	return o.CacheFor
}

// Resolver finds resources by name. It may be used by many goroutines at once;
// together they have at most one look at the server under way.
type Resolver struct {
	client   clientdiscovery.DiscoveryInterfaceWithContext
	forget   func(context.Context) // empties the client's own cache, if it has one
	cacheFor time.Duration

	mu       sync.Mutex
	looks    uint64 // looks at the server begun so far
	last     *look  // the newest one that succeeded
	newest   *look  // the newest one that ended, unless it was abandoned
	running  *look
	outdated uint64        // looks up to this one began before a Kick
	pace     pace          // when those who range over Changes look
	news     chan struct{} // closed and replaced when they have to think again
}

// look is one reading of the server's discovery documents. Its fields are set
// before done is closed.
type look struct {
	number  uint64 // the first is 1
	began   time.Time
	done    chan struct{}
	catalog *catalog
	err     error
	// abandoned says that the caller who looked gave up, which tells the others
	// nothing.
	abandoned bool
}

// NewResolver returns a Resolver that asks c. Nothing is asked before the
// first call. A c that caches (client-go's memory and disk caches) is told to
// forget before each look, because the Resolver caches by itself and knows
// when to look again.
func NewResolver(c clientdiscovery.DiscoveryInterface, opts *Options) *Resolver {
	client, forget := withContext(c)
	return &Resolver{client: client, forget: forget, cacheFor: opts.cacheFor(), news: make(chan struct{})}
}

// Resolve returns the resource that ref names: by plural, singular, short
// name, kind or list kind (the kind with "List" behind it: discovery does not
// tell a CRD's own listKind), in any mix of upper and lower case.
//
// Without a group all groups are searched. A plural wins over a kind, that over
// a list kind and that over a short name; of equals the core group's wins, and
// if none is in the core group, or several are, the error is *AmbiguousError.
// Without a version the group's preferred one is taken, or the first in the
// server's order that has the resource. APIs that do not answer can't take
// part; the others still resolve.
//
// Answers are used again for Options.CacheFor (for five seconds at most while an
// API does not answer), so a type removed meanwhile may still be returned. An
// error is never used again: before one of *NotFoundError, *AmbiguousError or
// *UnavailableError is returned, the server has been asked anew.
//
// When ctx ends, its cause is returned, as soon as the client honours it:
// client-go's own does at once. A look is made under the ctx of one of those who
// wait for it; if that ends, another of them looks.
func (r *Resolver) Resolve(ctx context.Context, ref gvr.Ref) (gvr.Resource, error) {
	known, now := r.known()
	if known != nil {
		if res, err := known.catalog.resolve(ref); err == nil {
			return res, nil
		}
	}
	c, err := r.lookAfter(ctx, now)
	if err != nil {
		return gvr.Resource{}, unreadable(ctx, ref, err)
	}
	return c.resolve(ref)
}

// Watchables returns the resources that the server lets one list and watch,
// each of them once, in the version that Resolve would choose among those that
// can be watched; what the caller is allowed to do is not considered. The order
// is the server's. Where some APIs do not answer, it returns those of the
// others and an *UnavailableError.
func (r *Resolver) Watchables(ctx context.Context) ([]gvr.Resource, error) {
	known, now := r.known()
	var c *catalog
	if known != nil && len(known.catalog.failed) == 0 {
		c = known.catalog
	} else {
		var err error
		if c, err = r.lookAfter(ctx, now); err != nil {
			return nil, unreadable(ctx, gvr.Ref{}, err)
		}
	}
	all := func(schema.GroupVersion) bool { return true }
	return c.watchables(), c.unavailable(gvr.Ref{}, all)
}

// keepIncomplete is how long a look is used again of which a part failed: what
// was missing may be back, and may be the better answer.
const keepIncomplete = 5 * time.Second

// known returns the newest look if it is still good, and the number of looks
// begun so far: one with a higher number began after this call.
func (r *Resolver) known() (*look, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil || r.last.number <= r.outdated {
		return nil, r.looks
	}
	keep := r.cacheFor
	if len(r.last.catalog.failed) > 0 {
		keep = min(keep, keepIncomplete)
	}
	if time.Since(r.last.began) < keep {
		return r.last, r.looks
	}
	return nil, r.looks
}

// lookAfter returns the catalog of a look that began after look number n. It
// joins one that another caller has begun, or looks itself.
func (r *Resolver) lookAfter(ctx context.Context, n uint64) (*catalog, error) {
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		l, mine := r.join(n)
		if mine {
			r.run(ctx, l)
			return l.catalog, l.err
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if l.number > n && !l.abandoned {
			return l.catalog, l.err
		}
	}
}

// join returns the look that is under way, or a new one that the caller has to
// run. It returns the newest finished one if that is recent enough.
func (r *Resolver) join(n uint64) (l *look, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.last != nil && r.last.number > n:
		return r.last, false
	case r.running != nil:
		return r.running, false
	}
	return r.begin(), true
}

// begin returns a new look that the caller has to run. r.mu is held, and no other
// look is under way.
func (r *Resolver) begin() *look {
	r.looks++
	r.running = &look{number: r.looks, began: time.Now(), done: make(chan struct{})}
	return r.running
}

// announce wakes those who range over Changes. r.mu is held.
func (r *Resolver) announce() {
	close(r.news)
	r.news = make(chan struct{})
}

func (r *Resolver) run(ctx context.Context, l *look) {
	// Deferred, so that a client that panics does not leave the others waiting.
	l.abandoned = true
	defer func() {
		r.mu.Lock()
		r.running = nil
		if l.catalog != nil {
			r.last = l
		}
		if !l.abandoned {
			r.newest = l
			r.pace.looked(l.began, time.Now(), l.err != nil)
		}
		r.announce()
		r.mu.Unlock()
		close(l.done)
	}()
	r.forget(ctx)
	// Not the method of the same name: that of client-go's client asks twice
	// when an API is down.
	c, err := newCatalog(clientdiscovery.ServerGroupsAndResourcesWithContext(ctx, r.client))
	if ctx.Err() != nil && (err != nil || len(c.failed) > 0) {
		// A look cut short: what it did not read is not down.
		l.err = context.Cause(ctx)
		return
	}
	l.catalog, l.err, l.abandoned = c, err, false
}

// unreadable wraps the failure of a whole look.
func unreadable(ctx context.Context, ref gvr.Ref, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("discovery was ended: %w", err)
	}
	return &UnavailableError{Ref: ref, Err: err}
}
