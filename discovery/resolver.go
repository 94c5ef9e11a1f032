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
	newest   *look  // the newest one that ended, unless it was cut short
	running  *look
	outdated uint64        // looks up to this one began before a Kick
	pace     pace          // when those who range over Changes look
	news     chan struct{} // closed and replaced when they have to think again
}

// look is one reading of the server's discovery documents.
type look struct {
	number  uint64 // the first is 1
	began   time.Time
	catalog *catalog
	err     error
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
	c, err := r.look(ctx, ref, now)
	if err != nil {
		return gvr.Resource{}, err
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
		if c, err = r.look(ctx, gvr.Ref{}, now); err != nil {
			return nil, err
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

// begin returns a new look that the caller has to run. r.mu is held, and no other
// look is under way.
func (r *Resolver) begin() *look {
	r.looks++
	r.running = &look{number: r.looks, began: time.Now()}
	return r.running
}

// announce wakes those who range over Changes. r.mu is held.
func (r *Resolver) announce() {
	close(r.news)
	r.news = make(chan struct{})
}

// run makes a look. If ctx ends first, or the client panics, it says nothing.
func (r *Resolver) run(ctx context.Context, l *look) {
	defer func() { // also if the client panics: the others must not wait for ever
		r.mu.Lock()
		r.running = nil
		if l.catalog != nil {
			r.last = l
		}
		if l.catalog != nil || l.err != nil {
			r.newest = l
			r.pace.looked(l.began, time.Now(), l.err != nil)
		}
		r.announce()
		r.mu.Unlock()
	}()
	r.forget(ctx)
	// Not the method of the same name: that of client-go's client asks twice
	// when an API is down.
	c, err := newCatalog(clientdiscovery.ServerGroupsAndResourcesWithContext(ctx, r.client))
	if ctx.Err() != nil && (err != nil || len(c.failed) > 0) {
		return // a look cut short: what it did not read is not down
	}
	l.catalog, l.err = c, err
}

// look returns the catalog of a look that began after look number n.
func (r *Resolver) look(ctx context.Context, ref gvr.Ref, n uint64) (*catalog, error) {
	l, err := r.await(ctx, n, true, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("discovery was ended: %w", err)
	case l.err != nil:
		return nil, &UnavailableError{Ref: ref, Err: l.err}
	}
	return l.catalog, nil
}
