package stream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// ClientOptions say how a client of NewClient reads lists and watches. The zero
// value is the default.
type ClientOptions struct {
	// DropManagedFields leaves metadata.managedFields out of the objects of lists and
	// watches. They are often a third of an object, and nobody is asked to look at them:
	// whether they are right JSON is not checked then.
	DropManagedFields bool
	// DecodeWorkers is how many goroutines decode the events of one watch, whose order
	// they keep. Zero means 1: the goroutine of the Stream, or one that a plain Watch has
	// for that. More pay where one watch is so busy that one core does not keep up with
	// it. Each watch then has that many goroutines, and up to twice as many pieces of
	// 16 KiB, or of one event, decoded ahead: as objects they take five to eight times as
	// much memory. With Options.Select it is always 1.
	DecodeWorkers int
}

// maxDecodeWorkers is more than a machine has cores to spare.
const maxDecodeWorkers = 64

// NewClient returns a dynamic client that suits watching. cfg is copied; its Timeout
// applies to everything but watches, each of which it would end. opts may be nil.
//
// It is client-go's own (requests, credentials, rate limits, retries, warnings and
// errors), except that it decodes the JSON of lists and watches in one pass instead of
// several, with the same objects as a result. What differs from the JSON of a
// kube-apiserver it leaves to client-go's decoder, whose result, or error, it then
// returns. It asks for lists and watches in JSON and not compressed. What comes
// in another content type is client-go's, managedFields included. A watch is read up to
// 256 KiB ahead of who receives its events, or one event, and up to 16 of those are decoded
// ahead, or what DecodeWorkers says. A list is decoded while it comes; client-go reads, logs and
// measures (rest_client_response_size_bytes) a short note in its place.
//
// Strings that many objects have are shared by them; a string that is kept of an
// object keeps up to 4 KiB of that object's other strings in memory.
//
// For a Stream it also asks for metadata alone (Options.MetadataOnly), leaves the
// waits that a Retry-After header asks for to the Stream, which shows them in its
// Status, and reads the next page of a list while the Stream delivers one.
//
// The README says how fast it is. Where a program does little but decode, Go's garbage
// collector takes most of the rest: a program with a small heap gains a lot from a
// higher GOGC (400, with GOMEMLIMIT as a bound).
func NewClient(cfg *rest.Config, opts *ClientOptions) (dynamic.Interface, error) {
	var o ClientOptions
	if opts != nil {
		o = *opts
	}
	if o.DecodeWorkers < 0 || o.DecodeWorkers > maxDecodeWorkers {
		return nil, &OptionsError{"ClientOptions.DecodeWorkers",
			fmt.Sprintf("%d: it should be between 1 and %d, or 0 for 1", o.DecodeWorkers, maxDecodeWorkers)}
	}
	c := dynamic.ConfigFor(cfg)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next} })
	if c.RateLimiter == nil && c.QPS >= 0 { // else each of the two clients would have its own
		qps, burst := cmp.Or(c.QPS, rest.DefaultQPS), cmp.Or(c.Burst, rest.DefaultBurst)
		c.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	}
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	all, err := dynamic.NewForConfigAndClient(c, h)
	if err != nil {
		return nil, err
	}
	timeless := *h
	timeless.Timeout = 0
	watches, err := dynamic.NewForConfigAndClient(c, &timeless)
	if err != nil {
		return nil, err
	}
	return &client{all, watches, newDecoders(o.DropManagedFields, c), max(o.DecodeWorkers, 1)}, nil
}

// wish is what a Stream wants of its client, in the context of a request.
type wish struct {
	metadata   bool         // and no more
	picky      bool         // it looks at the metadata of events before they are decoded
	retryAfter atomic.Int64 // seconds, that the server asked for
}

type wishKey struct{}

// wishing is the context for a request.
func (s *Stream) wishing(ctx context.Context) (context.Context, *wish) {
	w := &wish{metadata: s.options.MetadataOnly, picky: s.options.Select != nil}
	return context.WithValue(ctx, wishKey{}, w), w
}

// pacedError is what a server answered that asked for a wait in a header.
type pacedError struct {
	error
	after time.Duration
}

func (e *pacedError) Unwrap() error { return e.error }

// paced adds to err what the header said.
func (w *wish) paced(err error) error {
	if seconds := w.retryAfter.Load(); seconds > 0 {
		return &pacedError{err, time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second}
	}
	return err
}

// call is a list or a watch, in the context of its request.
type call struct {
	*wish // nil if no Stream made it
	from  *decoders
	watch bool
	// Where the answer goes, if it is JSON: client-go has another one.
	list *unstructured.UnstructuredList
	pipe *pipe
}

type callKey struct{}

// calling is the context for a request of client-go's.
func (c *client) calling(ctx context.Context, watch bool) (context.Context, *call) {
	w, _ := ctx.Value(wishKey{}).(*wish)
	made := &call{wish: w, from: c.decoders, watch: watch}
	return context.WithValue(ctx, callKey{}, made), made
}

// What client-go's metadata client accepts. A server that does not know it sends
// whole objects. Lists and watches are asked differently: a kube-apiserver takes
// the first clause that it knows, and can't make a list of an event.
const (
	acceptMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	acceptMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

func (c *call) accepts() string {
	switch {
	case c.wish == nil || !c.metadata:
		return runtime.ContentTypeJSON // and not CBOR, whose decoder is client-go's
	case c.watch:
		return acceptMetadata
	}
	return acceptMetadataList
}

// transport takes the answers of calls. Other requests it passes on.
type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, _ := r.Context().Value(callKey{}).(*call)
	if c == nil {
		return t.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Accept", c.accepts())
	r.Header.Set("Accept-Encoding", "identity") // Go's own transport would ask for gzip
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if c.wish != nil {
		// client-go would wait, up to ten times, and say nothing; after "0" it would not
		// even wait.
		if seconds, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64); err == nil {
			c.retryAfter.Store(seconds)
		}
		resp.Header.Del("Retry-After")
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case err != nil || media != runtime.ContentTypeJSON || resp.StatusCode != http.StatusOK || resp.Body == nil:
	case c.watch:
		c.pipe = newPipe()
		resp.Body = &watchBody{resp.Body, c.pipe}
	default:
		resp.Body = &listBody{ReadCloser: resp.Body, call: c}
	}
	return resp, nil
}

func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// ClusterOf finds out which cluster cfg leads to, for checkpoint.Options. It is
// known by the uid of its namespace kube-system, which no other cluster has; who
// may not read that (403), or finds none (404), knows it by its URL and the
// certificates that it is trusted by, which may change. Any other answer is an
// error.
func ClusterOf(ctx context.Context, cfg *rest.Config) (checkpoint.Cluster, error) {
	var c checkpoint.Cluster
	url, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return c, fmt.Errorf("stream: the cluster's URL: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return c, fmt.Errorf("stream: the cluster's certificates: %w", err)
	}
	c.Address = url.Scheme + "://" + url.Host + url.Path
	if len(cfg.CAData) > 0 {
		sum := sha256.Sum256(cfg.CAData)
		c.Address += " sha256:" + hex.EncodeToString(sum[:8])
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return c, fmt.Errorf("stream: %w", err)
	}
	namespaces := client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	namespace, err := namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return c, nil
	case err != nil:
		return c, fmt.Errorf("stream: the uid of the namespace kube-system, by which the cluster is known: %w", err)
	}
	c.UID = string(namespace.GetUID())
	return c, nil
}
