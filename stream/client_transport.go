package stream

import (
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// What client-go's metadata client accepts. A server that does not know it sends
// whole objects. Lists and watches are asked differently: a kube-apiserver takes
// the first clause that it knows, and can't make a list of an event.
const (
	acceptMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	acceptMetadata     = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

// transport does what the context of a request wishes.
type transport struct {
	next       http.RoundTripper
	compressed bool // answers may be
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w, _ := r.Context().Value(wishKey{}).(*wish)
	tapped, _ := r.Context().Value(tapKey{}).(*tap)
	list, _ := r.Context().Value(listTapKey{}).(*listTap)
	plain := !t.compressed && (tapped != nil || list != nil) && r.Header.Get("Accept-Encoding") == ""
	if plain || w != nil && w.metadata {
		r = r.Clone(r.Context())
	}
	if plain {
		r.Header.Set("Accept-Encoding", "identity") // Go's own would ask for gzip
	}
	if w != nil && w.metadata {
		accept := acceptMetadataList
		if tapped != nil {
			accept = acceptMetadata
		}
		r.Header.Set("Accept", accept)
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	if w != nil {
		// client-go would wait by itself, up to ten times, and say nothing; after "0" it
		// would not even wait.
		if seconds, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64); err == nil {
			w.retryAfter.Store(seconds)
		}
		resp.Header.Del("Retry-After")
	}
	if plain && resp.Body != nil && strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		// It was asked not to. Go's transport undoes this only where it asked for it.
		resp.Body = &inflatedBody{ReadCloser: resp.Body}
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
	if tapped != nil && resp.Body != nil {
		resp.Body = tappedBody{resp.Body, tapped}
	}
	if list != nil && resp.Body != nil {
		resp.Body = list.body(resp)
	}
	return resp, nil
}

func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// inflatedBody is a body without its compression. It reads nothing before it is
// read: the header of a watch may come with its first event.
type inflatedBody struct {
	io.ReadCloser
	inflated *gzip.Reader
	err      error
}

func (b *inflatedBody) Read(p []byte) (int, error) {
	if b.inflated == nil && b.err == nil {
		b.inflated, b.err = gzip.NewReader(b.ReadCloser)
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.inflated.Read(p)
}
