package stream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/guard"
)

// ClientOptions configure how a client of [NewClient] reads lists and watches. The zero value is the default.
type ClientOptions struct {
	// DropManagedFields leaves metadata.managedFields out of the objects of lists and watches. They are often a third
	// of an object. Servers that can do so (KEP-5958) do not send them. Dropped fields are not checked for valid JSON.
	DropManagedFields bool
	// RetriesPerSecond is how many requests per second all Streams of the client send together after a request failed
	// or a watch broke. It doubles with each second in which at least four of five answers are good, until there is
	// no limit; an answer is good unless it is 429, 5xx, no list, or missing. Zero means 50. Streams of other clients
	// have that limit, too: share one client in a process.
	RetriesPerSecond int
}

var errNoConfig = &OptionsError{"cfg", "", "must not be nil"}

// NewClient returns client-go's dynamic client with another decoder for lists and watches, which makes the same objects
// several times faster. cfg is copied; its Timeout applies to all requests except watches. opts may be nil. NewClient
// returns an [*OptionsError], or an error of client-go.
//
// All Streams of a client share its HTTP/2 connection, and a budget of requests after failures
// ([ClientOptions.RetriesPerSecond]). Wrapped in another type, it is to a Stream like any other dynamic.Interface.
//
// The client has a rate limit only if cfg has QPS or a RateLimiter. client-go's default of 5 requests per second would
// delay programs with many Streams, which limit their own requests. As in client-go, opening a watch does not count.
//
// Requests, credentials, retries, warnings and errors are those of client-go, with two exceptions:
//
//   - The client refuses the answer 101 Switching Protocols, and redirects to another scheme, host or port.
//   - An answer other than a watch may have 64 MiB, and an object in a list or watch 16 MiB. Decoded, an answer or an
//     event may take about 256 MiB of memory. A Stream whose page is too large requests fewer objects, down to one. An
//     event that is too large is unreadable.
//
// A run that meets a refused answer, or a page of one object that is too large, ends with a [*RequestError], or retries
// the request if SYNCED was delivered before.
//
// "The client" in docs/architecture.md has what else differs: decoding, compression, reading ahead, connections.
func NewClient(cfg *rest.Config, opts *ClientOptions) (dynamic.Interface, error) {
	if cfg == nil {
		return nil, errNoConfig
	}
	var o ClientOptions
	if opts != nil {
		o = *opts
	}
	if o.RetriesPerSecond < 0 {
		return nil, &OptionsError{"ClientOptions.RetriesPerSecond", strconv.Itoa(o.RetriesPerSecond),
			"must not be negative"}
	}
	c, err := client.New(cfg, client.Options(o))
	return c, guard.Redact(err)
}

// ClusterOf identifies the cluster of cfg, for [checkpoint.Options]. The identity is the unique uid of the namespace
// kube-system, and the URL and CA certificates in cfg. If the caller may not read the namespace (403), or it does not
// exist (404), the identity is the URL and the certificates alone, which may change. Any other failure is an error,
// also a redirect to another scheme, host or port.
//
// A cfg.Timeout of 0 means 32 s. It bounds the request with all its retries: client-go obeys a Retry-After within that
// time. A longer one is an error at once, which says how long the server asks to wait.
func ClusterOf(ctx context.Context, cfg *rest.Config) (checkpoint.Cluster, error) {
	var c checkpoint.Cluster
	if cfg == nil {
		return c, errNoConfig
	}
	url, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return c, fmt.Errorf("stream: cannot determine the URL of the cluster: %w", guard.Redact(err))
	}
	cfg = rest.CopyConfig(cfg)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return c, fmt.Errorf("stream: cannot read the certificates of the cluster: %w", err)
	}
	c.Address = url.Scheme + "://" + url.Host + url.Path
	if len(cfg.CAData) > 0 {
		sum := sha256.Sum256(cfg.CAData)
		c.Address += " sha256:" + hex.EncodeToString(sum[:8])
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 32 * time.Second
	}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return guard.Impatient(guard.Wrap(next)) })
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return c, fmt.Errorf("stream: cannot create a client: %w", err)
	}
	namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	namespace, err := namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return c, nil
	case err != nil:
		return c, fmt.Errorf("stream: cannot identify the cluster by the uid of namespace kube-system: %w",
			guard.Redact(err))
	}
	c.UID = string(namespace.GetUID())
	return c, nil
}
