package discovery

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// Resolver resolves names to resources. It is safe for concurrent use: concurrent
// calls share polls of the server, and at most one poll runs at a time.
type Resolver struct {
	client   clientdiscovery.DiscoveryInterface
	calling  chan struct{} // see read
	cacheFor time.Duration

	mu       sync.Mutex
	polls    polls
	schedule schedule      // of the polls of Changes
	updated  chan struct{} // closed and replaced when a poll ends and at Refresh
}

// NewResolver returns a Resolver that polls through c. It sends no request before the first call. If c is nil, or a
// nil pointer, every call of the Resolver returns an error.
//
// The Resolver has a cache of its own: it reads past client-go's memory and disk caches, as aggregated discovery, and
// empties the cache of another caching c before each poll. It also reads past a client of the program that is inside
// such a cache: pass that client itself. Clients of client-go refuse answers that are no discovery documents, and
// refusals of gateways, as [NewClient] says; what another c returns must be right.
//
// Resolve and Watchables reuse an answer of the server for cacheFor. Zero means one
// minute; a negative value polls the server on every call.
func NewResolver(c clientdiscovery.DiscoveryInterface, cacheFor time.Duration) *Resolver {
	if v := reflect.ValueOf(c); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return &Resolver{} // see check
	}
	return &Resolver{
		client: checked(c), cacheFor: cmp.Or(cacheFor, time.Minute), updated: make(chan struct{}),
		calling: make(chan struct{}, 1),
	}
}

// check returns an error if r was not created by NewResolver with a client, or if there is no context.
func (r *Resolver) check(ctx context.Context) error {
	switch {
	case r == nil || r.client == nil:
		return invalid.New("Resolver", "", "must be made with NewResolver, of a client")
	case ctx == nil:
		return invalid.New("ctx", "", "must not be nil")
	}
	return nil
}

// Resolve returns the resource that ref names: by plural, singular, short name, kind or list kind, ignoring case. The
// list kind is the kind followed by "List"; discovery does not report a CRD's own listKind.
//
// Without a group, Resolve searches all groups. A built-in type has its names before all others, by any of them: no CRD
// can take "deploy", or make it ambiguous. Built-in are the groups of the kube-apiserver, and those without a dot.
// Matches rank in this order: plural, singular or kind, then short name, then list kind. Among equal matches of
// built-in types the core group takes precedence, then the server's order decides, as in kubectl. If several other
// types match equally, the error is [*AmbiguousError]. A plural with its group and version, as [gvr.Resource.Ref] has
// it and in its own case, names that resource, whatever other names others have.
//
// A group without a dot may be how a group begins, if no group has exactly that name and the type:
// "storageclasses.storage". Without a version, Resolve returns the group's preferred version or, if that lacks the
// resource, the first in the server's order that has it. An API that cannot be read does not keep others from matching,
// unless it is built-in and they are not.
//
// Resolve reuses an answer for the time that [NewResolver] was given, or at most five seconds while an API cannot be
// read, so it may return a type that has been removed meanwhile. It never reuses an error: before it returns
// [*NotFoundError], [*AmbiguousError] or [*UnavailableError], it polls the server again.
//
// When ctx ends, Resolve returns the cause of ctx at once. (A call of a client that takes no context goes on in the
// background, and the next poll waits for it. Clients of client-go before 0.37 take none, but their requests end with
// ctx; only a wait for a Retry-After goes on.) A shared poll runs with the ctx of one of its callers; if that ctx ends,
// another caller polls again.
func (r *Resolver) Resolve(ctx context.Context, ref gvr.Ref) (gvr.Resource, error) {
	if err := r.check(ctx); err != nil {
		return gvr.Resource{}, err
	}
	cached, started := r.cached()
	if cached != nil {
		if res, err := cached.catalog.resolve(ctx, ref); err == nil {
			return res, nil
		}
	}
	c, err := r.catalogAfter(ctx, ref, started)
	if err != nil {
		return gvr.Resource{}, err
	}
	return c.resolve(ctx, ref)
}

// Watchables returns the resources that the server can list and watch: each of them once, in the server's order, and in
// the version that Resolve would return among those that can be watched. It ignores the caller's permissions. If some
// APIs cannot be read, it returns the resources of the others and an [*UnavailableError].
func (r *Resolver) Watchables(ctx context.Context) ([]gvr.Resource, error) {
	if err := r.check(ctx); err != nil {
		return nil, err
	}
	cached, started := r.cached()
	var c *catalog
	if cached != nil && len(cached.catalog.failed) == 0 {
		c = cached.catalog
	} else {
		var err error
		if c, err = r.catalogAfter(ctx, gvr.Ref{}, started); err != nil {
			return nil, err
		}
	}
	watchable := slices.DeleteFunc(c.oneVersionEach(), func(r gvr.Resource) bool { return !r.ClusterWatch() })
	return watchable, c.unavailable(gvr.Ref{}, func(schema.GroupVersion) bool { return true })
}

// cached returns the last successful poll, or nil if it is too old, and the number
// of polls started so far: one with a higher number started after this call.
func (r *Resolver) cached() (*poll, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.polls.cached(r.cacheFor), r.polls.started
}

// catalogAfter returns the catalog of a poll with a number above n.
func (r *Resolver) catalogAfter(ctx context.Context, ref gvr.Ref, n uint64) (*catalog, error) {
	p, err := r.await(ctx, n, true, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("discovery canceled: %w", err)
	case p.err != nil:
		return nil, &UnavailableError{Ref: ref, Err: p.err}
	}
	return p.catalog, nil
}
