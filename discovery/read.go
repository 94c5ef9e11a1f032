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

// These are methods that client-go's clients and caches have since 0.37, and that earlier versions have no names for.
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

// takesContexts reports whether all requests of c end with a context.
func takesContexts(c clientdiscovery.DiscoveryInterface) bool {
	_, aggregated := c.(aggregatedWithContext)
	_, groups := c.(groupsWithContext)
	_, versions := c.(versionWithContext)
	return (aggregated || groups) && versions
}

// read reads what the server serves: one or two documents if it has aggregated discovery, else one for each version
// of each group. It returns soon after ctx has ended. If a client that takes no context does not, its call goes on in
// the background, and nobody receives what it returns.
//
// client-go's functions do the same, but take no context before 0.37; its client's methods of the same name request
// everything twice while an API is down.
func read(ctx context.Context, c clientdiscovery.DiscoveryInterface) (*catalog, error) {
	if takesContexts(c) {
		return readAll(ctx, c)
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
		a.catalog, a.err = readAll(ctx, endingWith(ctx, c))
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

func readAll(ctx context.Context, c clientdiscovery.DiscoveryInterface) (*catalog, error) {
	invalidate(ctx, c)
	groups, read, failed, err := groups(ctx, c)
	switch {
	case groups == nil && err == nil:
		return nil, errNoGroups
	case groups == nil:
		return nil, guard.Redact(err)
	case len(read) == 0:
		read, failed = versions(ctx, c, groups.Groups)
	}
	return newCatalog(groups.Groups, read, failed), nil
}

// invalidate empties the client's own cache, if it has one.
func invalidate(ctx context.Context, c clientdiscovery.DiscoveryInterface) {
	switch c := c.(type) {
	case invalidateWithContext:
		c.InvalidateWithContext(ctx)
	case clientdiscovery.CachedDiscoveryInterface:
		c.Invalidate()
	}
}

// groups reads which groups are served. From aggregated discovery it also returns what they serve, and the versions
// that the server could not read.
func groups(
	ctx context.Context, c clientdiscovery.DiscoveryInterface,
) (all *metav1.APIGroupList, read documents, failed causes, err error) {
	switch c := c.(type) {
	case aggregatedWithContext:
		return c.GroupsAndMaybeResourcesWithContext(ctx)
	case clientdiscovery.AggregatedDiscoveryInterface:
		return c.GroupsAndMaybeResources()
	case groupsWithContext:
		all, err = c.ServerGroupsWithContext(ctx)
	default:
		all, err = c.ServerGroups()
	}
	return all, nil, nil, err
}

// version reads what one version serves, such as "apps/v1".
func version(ctx context.Context, c clientdiscovery.DiscoveryInterface, gv string) (*metav1.APIResourceList, error) {
	if c, ok := c.(versionWithContext); ok {
		return c.ServerResourcesForGroupVersionWithContext(ctx, gv)
	}
	return c.ServerResourcesForGroupVersion(gv)
}

// versions reads each version of each group, all at once: the client has a limit if it needs one.
func versions(
	ctx context.Context, c clientdiscovery.DiscoveryInterface, groups []metav1.APIGroup,
) (documents, causes) {
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
				list, err = version(ctx, c, gv.String())
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
