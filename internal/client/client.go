package client

import (
	"cmp"
	"context"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/pace"
)

// Options are those of stream.ClientOptions, which documents them.
type Options struct {
	DropManagedFields bool
	RetriesPerSecond  int // 0 for the default
}

// client is client-go's dynamic client, but decodes lists and watches itself.
type client struct {
	dynamic.Interface
	watches  dynamic.Interface // without the config's timeout, which would end watches
	whole    formats
	metadata formats
	closes   bool // closing a body or ending its context ends a Read of it, as with net/http
	pace     *pace.Client

	connections *connections
}

// New returns client-go's dynamic client for a copy of cfg. Lists and watches use the decoder of package decode.
func New(cfg *rest.Config, o Options) (dynamic.Interface, error) {
	c := dynamic.ConfigFor(cfg)
	wrap, turn := c.WrapTransport, newTurn()
	c.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		if c.Transport == nil {
			next = dials{next, turn}
		}
		next = encodings{next, !c.DisableCompression}
		if wrap != nil {
			next = wrap(next)
		}
		return transport{guard.Wrap(next)}
	}
	switch {
	case c.RateLimiter != nil:
	case c.QPS > 0: // one for both clients
		c.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(c.QPS, cmp.Or(c.Burst, rest.DefaultBurst))
	default:
		c.QPS = -1 // or client-go would allow 5 requests per second
	}
	cs, err := newConnections(c)
	if err != nil {
		return nil, err
	}
	all, err := dynamic.NewForConfigAndClient(c, &http.Client{Transport: cs, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	watches, err := dynamic.NewForConfigAndClient(c, &http.Client{Transport: cs})
	if err != nil {
		return nil, err
	}
	stock := c.NegotiatedSerializer.SupportedMediaTypes()[0]
	without := newDecoders(&jsonFormat{true, stock}, true)
	whole := formats{json: without}
	if !o.DropManagedFields {
		whole.json = newDecoders(&jsonFormat{false, stock}, false)
	}
	return &client{
		all, watches, whole, formats{without, newDecoders(protobufFormat{}, true)},
		cfg.Transport == nil && cfg.WrapTransport == nil, pace.NewClient(o.RetriesPerSecond), cs,
	}, nil
}

// formats has the decoders for each content type.
type formats struct{ json, protobuf *decoders } // protobuf is nil if it is not requested

// of returns the decoders for an answer, or nil if client-go has to decode it. Without a valid content type, client-go
// takes it for JSON.
func (f formats) of(contentType string) *decoders {
	switch media, _, err := mime.ParseMediaType(contentType); {
	case err != nil || media == runtime.ContentTypeJSON:
		return f.json
	case media == runtime.ContentTypeProtobuf:
		return f.protobuf
	}
	return nil
}

// PaceOf returns what paces the requests of all Streams of c. The caller calls release when it is done.
func PaceOf(c dynamic.Interface) (shared *pace.Client, release func()) {
	if own, ok := c.(*client); ok {
		return own.pace, func() {}
	}
	return pace.Share(c)
}

func (c *client) Resource(r schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	all, watches := c.Interface.Resource(r), c.watches.Resource(r)
	return &allNamespaces{resource{all, watches, c}, all, watches}
}

// allNamespaces is a resource in the whole cluster.
type allNamespaces struct {
	resource     // has its List and Watch, and those methods that are client-go's
	all, watches dynamic.NamespaceableResourceInterface
}

func (r *allNamespaces) Namespace(namespace string) dynamic.ResourceInterface {
	return &resource{r.all.Namespace(namespace), r.watches.Namespace(namespace), r.client}
}

// resource is a resource in a namespace, or in the whole cluster.
type resource struct {
	dynamic.ResourceInterface
	watches dynamic.ResourceInterface
	client  *client
}

// List sends the request through client-go, and decodes the answer while it arrives.
func (r *resource) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return r.list(ctx, opts, &call{formats: r.client.whole})
}

// Watch sends the request through client-go, and decodes events as they arrive.
func (r *resource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, f, err := r.watch(ctx, opts, &call{formats: r.client.whole, watch: true})
	if err != nil || f == nil {
		return w, err
	}
	return newPlainWatch(f), nil
}

func (r resource) list(ctx context.Context, opts metav1.ListOptions, c *call) (*unstructured.UnstructuredList, error) {
	list, err := r.ResourceInterface.List(context.WithValue(ctx, callKey{}, c), opts)
	switch {
	case err != nil:
		return nil, err
	case c.refused != nil:
		return nil, c.refused
	case c.list.UnstructuredList != nil:
		return c.list.UnstructuredList, nil
	}
	for i := range list.Items {
		c.formats.json.prune(&list.Items[i])
	}
	return list, nil
}

// watch returns the frames of a watch, or client-go's watch if client-go decodes the events.
func (r resource) watch(ctx context.Context, opts metav1.ListOptions, c *call) (watch.Interface, *frames, error) {
	w, err := r.watches.Watch(context.WithValue(ctx, callKey{}, c), opts)
	switch {
	case c.pipe == nil:
		return w, nil, err
	case err != nil:
		c.pipe.stop()
		return nil, nil, err
	}
	return nil, newFrames(c.from, c.pipe), nil
}

// call describes a list or a watch to the transport, in the context of the request. The transport fills in the answer.
type call struct {
	formats formats
	watch   bool
	objects Objects
	// noRetry says that the caller waits for Retry-After, so client-go must not.
	noRetry    bool
	retryAfter time.Duration
	sentOn     *generation // set by the client's connections

	// The answer, if it is JSON or protobuf. Otherwise client-go decodes it.
	from    *decoders // of its content type
	list    List
	refused error // why there is no list
	pipe    *pipe
}

type callKey struct{}

// The Accept headers of client-go's metadata client. A server that does not know them sends whole objects. Lists and
// watches differ: a kube-apiserver takes the first clause that it knows, and can't make a list of an event.
const (
	acceptMetadataList = runtime.ContentTypeProtobuf + asMetadataList + runtime.ContentTypeJSON + asMetadataList +
		runtime.ContentTypeJSON
	acceptMetadata = runtime.ContentTypeProtobuf + asMetadata + runtime.ContentTypeJSON + asMetadata +
		runtime.ContentTypeJSON

	asMetadataList = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
	asMetadata     = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
)

// acceptDropped asks for objects without managedFields (KEP-5958). A kube-apiserver that does not know the parameter
// ignores it (acceptMediaTypeOptions), and the decoder drops the fields. A server that refuses parameters that it does
// not know takes the second clause.
const acceptDropped = "application/json;drop=metadata.managedFields,application/json"

func (c *call) accepts() string {
	switch {
	case c.objects != Metadata && c.formats.json.dropManaged:
		return acceptDropped
	case c.objects != Metadata:
		return runtime.ContentTypeJSON // not CBOR, which only client-go decodes
	case c.watch:
		return acceptMetadata
	}
	return acceptMetadataList
}

// transport reads the answers to calls. Other requests pass through it unchanged.
type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, _ := r.Context().Value(callKey{}).(*call)
	if c == nil {
		return t.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Accept", c.accepts())
	send := t.next.RoundTrip
	if c.watch {
		send = t.watch
	}
	resp, err := send(r)
	if err != nil {
		return resp, err
	}
	if c.noRetry {
		// client-go would retry up to ten times and report nothing. For "0" it would not even wait.
		if seconds, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64); err == nil {
			c.retryAfter = time.Duration(min(max(seconds, 0), math.MaxInt32)) * time.Second
		}
		resp.Header.Del("Retry-After")
	}
	switch c.from = c.formats.of(resp.Header.Get("Content-Type")); {
	case c.from == nil || resp.Body == nil, resp.StatusCode != http.StatusOK:
		return resp, nil
	case c.watch:
		c.pipe = newPipe(c.from.format, resp.Body)
		resp.Body = http.NoBody // client-go's watch ends at once
	default:
		guard.BytesOnly(resp.Body) // listBody bounds the memory
		resp.Body = &listBody{ReadCloser: resp.Body, call: c, from: c.from}
	}
	if c.from == c.formats.protobuf {
		resp.Header.Set("Content-Type", runtime.ContentTypeJSON) // of what client-go reads
	}
	return resp, nil
}

// watch sends the request of a watch.
func (t transport) watch(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil || resp.Body == nil {
		cancel()
		return resp, err
	}
	resp.Body = canceledBody{resp.Body, cancel, resp.ProtoMajor == 1}
	return resp, nil
}

// canceledBody cancels the request of a watch when it is closed: over HTTP/1 before. Since Go 1.27 Close alone reads on
// there for up to 50 ms, so that the connection can be used again if the answer ends: that of a watch does not. Over
// HTTP/2 Close waits until the connection has one request less, unless the request is canceled.
type canceledBody struct {
	io.ReadCloser
	cancel context.CancelFunc
	http1  bool
}

func (b canceledBody) Close() error {
	defer b.cancel()
	if b.http1 {
		b.cancel()
	}
	return b.ReadCloser.Close()
}

func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
