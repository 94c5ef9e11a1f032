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
	// DecodeWorkers is the number of goroutines that decode the events of one watch, or the objects of a list that is
	// larger than 32 KiB, from 1 to 64. They keep the order of the events or objects. Zero means 1: a Stream then
	// decodes in its own goroutine, and a plain Watch in one that it starts.
	//
	// More than 1 helps only if one core cannot keep up with one watch. Each watch then has that many goroutines, and
	// for each goroutine up to two pieces of JSON of about 16 KiB are decoded ahead, or fewer and larger ones if events
	// are larger. Decoded, they take five to eight times as much memory, and up to 50 times. A watch with
	// [Options.Select] or [Raw] has one, and so has a list in protobuf.
	DecodeWorkers int
	// RetriesPerSecond is how many requests per second all Streams of the client send together after a request failed
	// or a watch broke. It doubles with each second in which at least four of five answers are good, until there is
	// no limit; an answer is good unless it is 429, 5xx, no list, or missing. Zero means 50. Streams of other clients
	// have that limit, too: share one client in a process.
	RetriesPerSecond int
}

const maxDecodeWorkers = 64

var errNoConfig = &OptionsError{"cfg", "", "must not be nil"}

// NewClient returns client-go's dynamic client with faster lists and watches. cfg is copied; its Timeout applies to all
// requests except watches. opts may be nil. NewClient returns an [*OptionsError], or an error of client-go.
//
// The client has a rate limit only if cfg has QPS or a RateLimiter. client-go's default of 5 requests per second would
// delay programs with many Streams, which limit their own requests. As in client-go, opening a watch does not count.
//
// Requests, credentials, retries, warnings and errors are those of client-go, with two exceptions:
//
//   - The client refuses the answer 101 Switching Protocols, and redirects to another scheme, host or port. A run then
//     ends with a [*RequestError], or retries the request if SYNCED was delivered before. (client-go's own dynamic
//     client follows such redirects and sends its credentials there. After a 101 it ignores the context until the
//     server closes the connection. A Stream cannot prevent either.)
//   - An answer other than a watch may have 64 MiB, and an object in a list or watch 16 MiB. Decoded, an answer or an
//     event may take about 256 MiB of memory: JSON of many small objects takes up to 50 times its size. A Stream whose
//     page is too large requests a quarter of the objects, down to one, and then more again. If a page of one is too
//     large, the run ends with a [*RequestError] that names the limit, or retries if SYNCED was delivered before. An
//     event that is too large is unreadable. Of an error text over 1 MiB, only the code is kept.
//
// Lists and watches differ:
//
//   - The client decodes their JSON in one pass instead of several, into the same objects. It passes JSON that differs
//     from a kube-apiserver's to client-go's decoder, and returns its result or error.
//   - It requests JSON, and for [Metadata] protobuf or JSON. client-go handles an answer in any other content type.
//     [ClientOptions.DropManagedFields] then applies to lists only.
//   - It requests lists and streaming lists with gzip, unless cfg has DisableCompression, and other watches without it.
//     client-go requests everything with gzip. A kube-apiserver compresses lists over 128 KiB and, since 1.37,
//     streaming lists, with the events that follow in the same watch.
//   - It reads a watch up to 256 KiB, or one event, ahead of the receiver, and decodes one event ahead, or more with
//     [ClientOptions.DecodeWorkers].
//   - It decodes a list while it arrives, and passes a short placeholder to client-go. So client-go's logs, and its
//     metric rest_client_response_size_bytes, show the placeholder instead of the list.
//   - Objects share strings that many of them have. A string kept from an object keeps up to 4 KiB of that object's
//     other strings in memory.
//
// For a Stream the client also requests metadata only ([Metadata]), calls [Options.Select] before it decodes an object,
// reads the next page of a list while the Stream delivers one, and returns Retry-After to the Stream, which waits and
// shows that in its Status. After a watch fell silent for [Options.IdleTimeout], or a request got no answer in time, it
// opens new connections for all later requests; a dead HTTP/2 connection would go on to carry them for up to 45 s. It
// then calls a WrapTransport in cfg again. It cannot replace the connections of a Transport in cfg, and only closes
// those that are idle. A client that is wrapped in another type does none of this.
//
// All Streams of a client share an HTTP/2 connection. Where the server limits how many requests a connection carries
// (100 by default for a kube-apiserver), there are as many connections as that needs. The client opens them one after
// the other, while Go opens one for each request that waits. On HTTP/1 each open watch has its own.
//
// The README has benchmarks. A program that mostly decodes spends much of its time in Go's garbage collector. With a
// small heap, a higher GOGC makes it considerably faster: 400, or off with a GOMEMLIMIT of 256MiB. A program whose live
// heap is 64 MiB or more collects seldom anyway.
func NewClient(cfg *rest.Config, opts *ClientOptions) (dynamic.Interface, error) {
	if cfg == nil {
		return nil, errNoConfig
	}
	var o ClientOptions
	if opts != nil {
		o = *opts
	}
	if o.DecodeWorkers < 0 || o.DecodeWorkers > maxDecodeWorkers {
		return nil, &OptionsError{"ClientOptions.DecodeWorkers", strconv.Itoa(o.DecodeWorkers),
			fmt.Sprintf("must be from 0 to %d", maxDecodeWorkers)}
	}
	if o.RetriesPerSecond < 0 {
		return nil, &OptionsError{"ClientOptions.RetriesPerSecond", strconv.Itoa(o.RetriesPerSecond),
			"must not be negative"}
	}
	c, err := client.New(cfg, client.Options{
		DropManagedFields: o.DropManagedFields, DecodeWorkers: max(o.DecodeWorkers, 1),
		RetriesPerSecond: o.RetriesPerSecond,
	})
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
