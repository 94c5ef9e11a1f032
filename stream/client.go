package stream

import (
	"context"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// NewClient returns a dynamic client that suits watching. cfg is copied, and its
// Timeout, which would end every watch, is left out of the copy. For a Stream, and
// nobody else, it does two things that client-go's own can't: it asks for metadata
// alone (Options.MetadataOnly), and it leaves the waits that a Retry-After header
// asks for to the Stream, which shows them in its Status. In all else it is
// client-go's own.
func NewClient(cfg *rest.Config, opts *ClientOptions) (dynamic.Interface, error) {
	if _, err := opts.check(); err != nil {
		return nil, err
	}
	c := rest.CopyConfig(cfg)
	c.Timeout = 0
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next} })
	return dynamic.NewForConfig(c)
}

// wish is what a Stream wants of the transport, in the context of a request.
type wish struct {
	metadata   bool         // and no more
	retryAfter atomic.Int64 // seconds, that the server asked for
}

type wishKey struct{}

// wishing is the context for a request.
func (s *Stream) wishing(ctx context.Context) (context.Context, *wish) {
	w := &wish{metadata: s.options.MetadataOnly}
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

// What client-go's metadata client accepts. A server that does not know it sends
// whole objects. Lists and watches are asked differently: a kube-apiserver takes
// the first clause that it knows, and can't make a list of an event.
const (
	acceptMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	acceptMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// transport does what the context of a request wishes.
type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w, ok := r.Context().Value(wishKey{}).(*wish)
	if !ok {
		return t.next.RoundTrip(r)
	}
	if w.metadata {
		r = r.Clone(r.Context())
		accept := acceptMetadataList
		if r.URL.Query().Has("watch") {
			accept = acceptMetadata
		}
		r.Header.Set("Accept", accept)
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	// client-go would wait by itself, up to ten times, and say nothing; after "0" it
	// would not even wait.
	if seconds, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64); err == nil {
		w.retryAfter.Store(seconds)
	}
	resp.Header.Del("Retry-After")
	return resp, nil
}

func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }
