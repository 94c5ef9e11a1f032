package discovery

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// NewClient returns a discovery client suited to polling. It copies cfg.
//
// The client has a rate limit only if cfg has QPS or a RateLimiter, because a [Resolver] limits its own polls. (Other
// clients of client-go have one by default.)
//
// The client keeps the two documents of aggregated discovery in memory and requests them with If-None-Match on every
// poll; a kube-apiserver answers 304 without a body if they have not changed (KEP-3352, section "ETag"). Documents of
// servers without aggregated discovery have no ETags and are downloaded each time. The stored documents stay valid when
// cfg's token is renewed. (client-go makes conditional requests only with its disk cache.)
//
// The client refuses redirects to another scheme, host or port, because client-go would send the credentials there.
//
// A refusal (4xx) that is no Status of an API server is a gateway's, and never means that something is not served. A
// Status has the kind Status, the apiVersion v1 or none, and the code of the answer, or a reason and no code; it has at
// most 1 MiB, and the error has its message. With 404, two other bodies are the word of an API server that doesn't
// have the path: Go's plain "404 page not found", and a list of paths. No 404 is believed for /api and /apis after the
// client has read them: a server that loses its core group is Unknown to this client.
//
// A cfg.Timeout of 0 means 32 s, client-go's default for discovery. It bounds a request with all its retries: client-go
// obeys a Retry-After within that time. A longer one is an error at once, which says how long the server asks to wait.
//
// The client refuses answers that succeed without being the document that was requested ({}, a Status, another kind or
// version, a version that is twice), whatever their Content-Encoding is: they are errors, never an absence of types. A
// document of the right kind whose list is empty or null is an absence.
//
// NewClient fails only if cfg is nil or invalid.
func NewClient(cfg *rest.Config) (clientdiscovery.DiscoveryInterface, error) {
	if cfg == nil {
		return nil, invalid.New("cfg", "", "must not be nil")
	}
	c := rest.CopyConfig(cfg)
	if c.QPS == 0 && c.RateLimiter == nil {
		c.QPS = -1
	}
	c.Timeout = cmp.Or(c.Timeout, 32*time.Second)
	c.ContentType, c.AcceptContentTypes = "", "" // JSON, which documentTransport reads
	c.UserAgent = cmp.Or(c.UserAgent, rest.DefaultKubernetesUserAgent())
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		guarded := guard.RefuseGateways(guard.Impatient(guard.WrapDiscovery(next)))
		return &conditionalTransport{next: &documentTransport{guarded}}
	})
	hc, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, guard.Redact(err)
	}
	d, err := clientdiscovery.NewDiscoveryClientForConfigAndClient(c, hc)
	if err != nil {
		return nil, guard.Redact(err)
	}
	return d, nil
}

// conditionalTransport requests a document it has stored only if the document
// has changed. On a 304 it returns the stored document as a 200.
type conditionalTransport struct {
	next      http.RoundTripper
	documents sync.Map // documentKey to *document: /api and /apis, in each form requested
}

// documentKey holds what differs between requests and selects the response ("Vary: Accept"). The key need not be
// complete: the server compares the ETag on every request.
type documentKey struct{ url, accept string }

// document is a document as the server sent it. It is immutable.
type document struct {
	etag   string
	header http.Header
	body   []byte
}

func (t *conditionalTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements [http.RoundTripper].
func (t *conditionalTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !storable(r) {
		return t.next.RoundTrip(r)
	}
	key := documentKey{r.URL.String(), r.Header.Get("Accept")}
	value, _ := t.documents.Load(key)
	stored, _ := value.(*document)
	sent := r
	if stored != nil {
		sent = r.Clone(r.Context())
		sent.Header.Set("If-None-Match", stored.etag)
	}
	response, err := t.next.RoundTrip(sent)
	switch {
	case err != nil:
	case response.StatusCode == http.StatusNotModified && stored != nil:
		_ = response.Body.Close()
		return stored.response(r), nil
	case response.StatusCode == http.StatusOK:
		err = t.store(key, response)
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// storable reports whether r requests one of the two documents that have ETags,
// as a whole and without conditions of its own.
func storable(r *http.Request) bool {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if r.Header.Get("If-None-Match")+r.Header.Get("Range")+r.Header.Get("Accept-Encoding") != "" {
		return false
	}
	return r.Method == http.MethodGet && (strings.HasSuffix(path, "/api") || strings.HasSuffix(path, "/apis"))
}

// store stores the body of a response that has an ETag, and replaces the body by a copy in memory.
func (t *conditionalTransport) store(key documentKey, response *http.Response) error {
	// A proxy that compresses weakens the ETag. The document is the same, but the
	// kube-apiserver recognizes only the strong form.
	etag := strings.TrimPrefix(response.Header.Get("ETag"), "W/")
	if etag == "" {
		return nil
	}
	body, err := io.ReadAll(response.Body) // which documentTransport has in memory
	_ = response.Body.Close()
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	t.documents.Store(key, &document{etag, response.Header.Clone(), body})
	return nil
}

// response returns d as the response to r.
func (d *document) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: d.header.Clone(), Body: io.NopCloser(bytes.NewReader(d.body)), ContentLength: int64(len(d.body)),
		Request: r,
	}
}
