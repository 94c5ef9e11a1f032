package discovery

import (
	"cmp"
	"context"
	"errors"

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
	_, versions := c.(versionWithContext)
	_, groups := c.(groupsWithContext)
	if _, aggregated := c.(clientdiscovery.AggregatedDiscoveryInterface); aggregated {
		_, groups = c.(aggregatedWithContext)
	}
	return groups && versions
}

// read reads what the server serves: one or two documents if it has aggregated discovery, else one for each version
// of each group. It returns soon after ctx has ended. If a client that takes no context does not, its call goes on in
// the background, nobody receives what it returns, and the next read waits for it: calling, which has room for one,
// holds a value meanwhile.
//
// client-go's functions do the same, but take no context before 0.37; its client's methods of the same name request
// everything twice while an API is down.
func read(ctx context.Context, c clientdiscovery.DiscoveryInterface, calling chan struct{}) (*catalog, error) {
	if takesContexts(c) {
		return readAll(ctx, c)
	}
	select {
	case calling <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var found *catalog
	var err error
	ended := inBackground(func() {
		defer func() { <-calling }()
		found, err = readAll(ctx, endingWith(ctx, c))
	})
	select {
	case panicked := <-ended:
		if panicked != nil {
			panic(panicked)
		}
		return found, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// inBackground calls f in a goroutine. The channel receives nil when f has returned, or what it panicked with.
func inBackground(f func()) <-chan any {
	ended := make(chan any, 1)
	go func() {
		var panicked any = "the client called runtime.Goexit"
		defer func() {
			if p := recover(); p != nil {
				panicked = p
			}
			ended <- panicked
		}()
		f()
		panicked = nil
	}()
	return ended
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
	type answer struct {
		gv    schema.GroupVersion
		list  *metav1.APIResourceList
		err   error
		ended <-chan any
	}
	var answers []*answer
	for _, g := range groups {
		for _, v := range g.Versions {
			a := &answer{gv: schema.GroupVersion{Group: g.Name, Version: v.Version}}
			a.ended = inBackground(func() { a.list, a.err = version(ctx, c, a.gv.String()) })
			answers = append(answers, a)
		}
	}
	var panicked any
	read, failed := documents{}, causes{}
	for _, a := range answers {
		panicked = cmp.Or(<-a.ended, panicked)
		if a.err != nil {
			failed[a.gv] = a.err
		}
		if a.list != nil { // with an error it is a part of the list
			read[a.gv] = a.list
		}
	}
	if panicked != nil {
		panic(panicked)
	}
	return read, failed
}
