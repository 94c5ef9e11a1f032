package stream

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// NewClient returns a dynamic client that suits watching. cfg is copied; its Timeout
// is for everything but watches, each of which it would end. opts may be nil.
//
// It is client-go's own (requests, credentials, rate limits, retries, warnings and
// errors), but for how it decodes the JSON of lists and watches: in one pass
// instead of several, with the same objects as a result. What is not like the JSON
// of a kube-apiserver it leaves to client-go's decoder, whose result, or error, it
// then is: other content types too. (JSON is all it asks for, and lists and watches
// not compressed unless opts say so.) A watch is read up to 256 KiB ahead of who
// receives its events, or one event, and up to 16 of those are decoded ahead, or what
// DecodeWorkers says. A list is decoded while it comes, and client-go reads no more
// than a note instead of it: that is how long its metric of response sizes
// (rest_client_response_size_bytes) takes it to be. Where client-go logs bodies, from
// level 8 on, it reads them whole.
//
// Strings that many objects have are shared by them; for the rest a string that is
// kept of an object keeps up to 4 KiB in memory, mostly of that object's other
// strings.
//
// For a Stream, and nobody else, it does more: it asks for metadata alone
// (Options.MetadataOnly), it leaves the waits that a Retry-After header asks for to
// the Stream, which shows them in its Status, and while a page of a list is told it
// reads the next one.
//
// How fast it is is in the README. Where decoding is most of what a program does,
// Go's garbage collector is most of the rest, since it runs each time as much has
// been allocated as there is: a program with a small heap gains a lot from a
// higher GOGC (400, with GOMEMLIMIT as a bound).
func NewClient(cfg *rest.Config, opts *ClientOptions) (dynamic.Interface, error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	c := dynamic.ConfigFor(cfg)
	c.AcceptContentTypes = "application/json" // and not CBOR, whose decoder is client-go's
	if o.Compression {
		c.DisableCompression = false
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next, o.Compression} })
	codecs, err := o.codecs(c.NegotiatedSerializer)
	if err != nil {
		return nil, err
	}
	c.NegotiatedSerializer = codecs
	// NewForConfigAndClient would replace that serializer. In all else this is what it does.
	c.GroupVersion, c.APIPath = nil, "/if-you-see-this-search-for-the-break"
	h, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	rc, err := rest.UnversionedRESTClientForConfigAndClient(c, h)
	if err != nil {
		return nil, err
	}
	timeless, shared := *h, *c
	timeless.Timeout, shared.RateLimiter = 0, rc.GetRateLimiter()
	watches, err := rest.UnversionedRESTClientForConfigAndClient(&shared, &timeless)
	if err != nil {
		return nil, err
	}
	return &client{dynamic.New(rc), dynamic.New(watches), codecs}, nil
}

// wish is what a Stream wants of the transport, in the context of a request.
type wish struct {
	metadata   bool         // and no more
	direct     bool         // it decodes the events itself
	picky      bool         // it looks at their metadata before
	retryAfter atomic.Int64 // seconds, that the server asked for
	room       []byte       // for a list; afterwards that for the next one
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
