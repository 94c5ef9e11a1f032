package discovery

import (
	"context"

	clientdiscovery "k8s.io/client-go/discovery"
)

// withContext gives c the methods that take a context, keeping what it can do
// beyond the plain interface (client-go's own adapter loses it): aggregated
// discovery, and a cache that can be emptied.
func withContext(c clientdiscovery.DiscoveryInterface) (clientdiscovery.DiscoveryInterfaceWithContext, func(context.Context)) {
	forget := func(context.Context) {}
	switch cached := c.(type) {
	case clientdiscovery.CachedDiscoveryInterfaceWithContext:
		forget = cached.InvalidateWithContext
	case clientdiscovery.CachedDiscoveryInterface:
		forget = func(context.Context) { cached.Invalidate() }
	}
	if aggregated, ok := c.(clientdiscovery.AggregatedDiscoveryInterface); ok {
		return clientdiscovery.ToAggregatedDiscoveryInterfaceWithContext(aggregated), forget
	}
	return clientdiscovery.ToDiscoveryInterfaceWithContext(c), forget
}
