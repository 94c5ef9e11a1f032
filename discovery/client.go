package discovery

import (
	"context"
	"net/http"
	"time"

	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// NewClient returns a discovery client that suits polling. cfg is copied, and its
// rate limit is left out of the copy: a Resolver has a pace of its own.
//
// It remembers the two documents of aggregated discovery and asks for them only if
// they have changed (If-None-Match; a kube-apiserver answers 304 without a body,
// KEP-3352, section "ETag"). Those of servers without aggregated discovery have no ETags,
// and are fetched each time. What is remembered is asked for again every time; it is of
// use for one identity, cfg's, whatever becomes of its token. (client-go does that with
// its disk cache only.)
func NewClient(cfg *rest.Config) (clientdiscovery.DiscoveryInterface, error) {
	c := rest.CopyConfig(cfg)
	c.QPS, c.RateLimiter = -1, nil
	if c.Timeout == 0 {
		c.Timeout = 32 * time.Second // as client-go has it for discovery
	}
	if c.UserAgent == "" {
		c.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &remembering{next: next} })
	hc, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	return clientdiscovery.NewDiscoveryClientForConfigAndClient(c, hc)
}

// withContext gives c the methods that take a context, keeping what it can do
// beyond the plain interface (client-go's own adapter loses it): aggregated
// discovery, and a cache that can be emptied.
func withContext(
	c clientdiscovery.DiscoveryInterface,
) (clientdiscovery.DiscoveryInterfaceWithContext, func(context.Context)) {
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
