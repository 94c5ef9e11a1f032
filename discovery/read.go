package discovery

import (
	"cmp"
	"context"
	"errors"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/gvrwatch/gvrwatch/internal/guard"
)

var errNoGroups = errors.New("the client returned neither groups nor an error")

type (
	// documents are what each version of a group serves.
	documents = map[schema.GroupVersion]*metav1.APIResourceList
	// causes say why versions could not be read.
	causes = map[schema.GroupVersion]error
)

// reader is what a Resolver calls of a client.
type reader struct {
	// groups returns the groups that are served. From aggregated discovery it also returns what they serve, and the
	// versions that the server could not read.
	groups func(context.Context) (*metav1.APIGroupList, documents, causes, error)
	// version returns what one version serves, such as "apps/v1".
	version func(context.Context, string) (*metav1.APIResourceList, error)
	// invalidate empties the client's own cache, if it has one.
	invalidate func(context.Context)
	// cancels says that these return soon after their context has ended.
	cancels bool
}

// These are the methods that client-go's clients and caches have since 0.37, and that no earlier version names.
type (
	groupsWithContext interface {
		ServerGroupsWithContext(context.Context) (*metav1.APIGroupList, error)
	}
	versionWithContext interface {
		ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error)
	}
	aggregatedWithContext interface {
		GroupsAndMaybeResourcesWithContext(context.Context) (*metav1.APIGroupList, documents, causes, error)
	}
	invalidateWithContext interface{ InvalidateWithContext(context.Context) }
)

// newReader returns a reader that calls the methods of c, those with a context if c has them.
func newReader(c clientdiscovery.DiscoveryInterface) reader {
	var r reader
	switch is := c.(type) {
	case aggregatedWithContext:
		r.groups, r.cancels = is.GroupsAndMaybeResourcesWithContext, true
	case clientdiscovery.AggregatedDiscoveryInterface:
		r.groups = func(context.Context) (*metav1.APIGroupList, documents, causes, error) {
			return is.GroupsAndMaybeResources()
		}
	case groupsWithContext:
		r.cancels = true
		r.groups = func(ctx context.Context) (*metav1.APIGroupList, documents, causes, error) {
			g, err := is.ServerGroupsWithContext(ctx)
			return g, nil, nil, err
		}
	default:
		r.groups = func(context.Context) (*metav1.APIGroupList, documents, causes, error) {
			g, err := c.ServerGroups()
			return g, nil, nil, err
		}
	}
	if is, ok := c.(versionWithContext); ok {
		r.version = is.ServerResourcesForGroupVersionWithContext
	} else {
		r.cancels = false
		r.version = func(_ context.Context, gv string) (*metav1.APIResourceList, error) {
			return c.ServerResourcesForGroupVersion(gv)
		}
	}
	switch is := c.(type) {
	case invalidateWithContext:
		r.invalidate = is.InvalidateWithContext
	case clientdiscovery.CachedDiscoveryInterface:
		r.invalidate = func(context.Context) { is.Invalidate() }
	default:
		r.invalidate = func(context.Context) {}
	}
	return r
}

// read reads what the server serves: one or two documents if it has aggregated discovery, else one for each version
// of each group. It returns soon after ctx has ended. If the client does not, its requests go on in the background
// until they end; nobody receives their answer, or their panic.
//
// client-go's functions do the same, but take no context before 0.37, and its client's methods of the same name
// request everything twice while an API is down.
func (r *reader) read(ctx context.Context) (*catalog, error) {
	if r.cancels {
		return r.readAll(ctx)
	}
	type answer struct {
		catalog  *catalog
		err      error
		panicked any
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		defer func() { answers <- a }()
		defer catch(&a.panicked)
		a.catalog, a.err = r.readAll(ctx)
	}()
	select {
	case a := <-answers:
		if a.panicked != nil {
			panic(a.panicked)
		}
		return a.catalog, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (r *reader) readAll(ctx context.Context) (*catalog, error) {
	r.invalidate(ctx)
	groups, read, failed, err := r.groups(ctx)
	switch {
	case groups == nil && err == nil:
		return nil, errNoGroups
	case groups == nil:
		return nil, guard.Redact(err)
	case len(read) == 0:
		read, failed = r.versions(ctx, groups.Groups)
	}
	return newCatalog(groups.Groups, read, failed), nil
}

// versions reads each version of each group, all at once: the client has a limit if it needs one.
func (r *reader) versions(ctx context.Context, groups []metav1.APIGroup) (documents, causes) {
	var (
		all      sync.WaitGroup
		mu       sync.Mutex
		read     = documents{}
		failed   = causes{}
		panicked any
	)
	for _, g := range groups {
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			all.Go(func() {
				var p any
				var list *metav1.APIResourceList
				var err error
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					panicked = cmp.Or(panicked, p)
					if err != nil {
						failed[gv] = err
					}
					if list != nil { // with an error it is a part of the list
						read[gv] = list
					}
				}()
				defer catch(&p)
				list, err = r.version(ctx, gv.String())
			})
		}
	}
	all.Wait()
	if panicked != nil {
		panic(panicked)
	}
	return read, failed
}

// catch, deferred, receives a panic, so that another goroutine can panic with it.
func catch(panicked *any) { *panicked = recover() }
