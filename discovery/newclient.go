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
// KEP-3352, section "ETag"). A Resolver that uses it does not even parse them again.
// At most 32 MiB are remembered of a document, and longer ones are fetched each time;
// so are the documents of servers without aggregated discovery, which have no
// ETags. What is remembered is asked for again every time and never taken for
// granted; it is of use for one identity, cfg's, whatever becomes of its token.
//
// client-go's own client does not do that, except with the directory that caches
// HTTP for its disk cache (k8s.io/client-go/discovery/cached/disk): that one
// writes to the disk, keeps what is read until a time to live is over, and reads
// and parses everything again afterwards.
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
	dc, err := clientdiscovery.NewDiscoveryClientForConfigAndClient(c, hc)
	if err != nil {
		return nil, err
	}
	return &conditionalClient{dc, hc}, nil
}

// conditionalClient is a DiscoveryClient whose transport remembers.
type conditionalClient struct {
	*clientdiscovery.DiscoveryClient
	http *http.Client
}

// revisit asks whether what was read before is still so. If it is not, a look in
// the visit that it returns need not ask again for what was read now.
func (c *conditionalClient) revisit(ctx context.Context, before *visit) (now *visit, unchanged bool) {
	now = newVisit()
	for _, key := range before.keys() {
		if !c.ask(now.in(ctx), key) {
			break
		}
	}
	if now.same(before) {
		return now, true
	}
	return now.again(), false
}

// ask lets the transport have a look at one document. It says whether there was an
// answer.
func (c *conditionalClient) ask(ctx context.Context, key pageKey) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, key.url, nil)
	if err != nil {
		return false
	}
	r.Header.Set("Accept", key.accept)
	response, err := c.http.Do(r)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil
}
