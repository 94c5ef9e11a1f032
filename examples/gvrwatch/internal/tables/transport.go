package tables

import (
	"bytes"
	"io"
	"math"
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// acceptTable asks for Tables. What the client would accept without them follows, for servers that make none.
const acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io,"

// transport asks for Tables, and converts them.
type transport struct {
	next  http.RoundTripper
	key   string // of the cells in an object
	whole bool   // objects keep all fields
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	watch := query.Get("watch") == "true" // as client-go writes it
	accept := r.Header.Get("Accept")
	switch whole := strings.HasPrefix(accept, runtime.ContentTypeJSON) && !strings.Contains(accept, "as="); {
	case r.Method != http.MethodGet, r.Body != nil && r.Body != http.NoBody, !whole, !watch && !query.Has("limit"):
		return t.next.RoundTrip(r)
	}
	asked := r.Clone(r.Context())
	asked.Header.Set("Accept", acceptTable+accept)
	include := metav1.IncludeMetadata // or a row would not have what identifies its object
	if t.whole {
		include = metav1.IncludeObject
	}
	query.Set("includeObject", string(include))
	asked.URL.RawQuery = query.Encode()
	resp, err := t.next.RoundTrip(asked)
	switch {
	case err != nil || resp.Body == nil:
		return resp, err
	case resp.StatusCode == http.StatusNotAcceptable:
		_ = resp.Body.Close()
		return t.next.RoundTrip(r)
	case resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "" || !isJSON(resp.Header):
		return resp, nil
	}
	resp.Header.Del("Content-Length")
	resp.ContentLength = -1
	resp.Body = newBody(resp.Body, watch, objects{key: t.key, full: t.whole})
	return resp, nil
}

func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// isJSON reports whether client-go would take the answer for JSON.
func isJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err != nil || media == runtime.ContentTypeJSON
}

// maxIdle is how much memory a watch keeps in each of its buffers while nothing arrives.
const maxIdle = 64 << 10

// converter converts the answer that a source reads.
type converter interface {
	// step appends to out what the next part of the answer becomes, if anything. If it returns a reader, that has the
	// rest of the answer. After an error the answer ends with it.
	step(out *bytes.Buffer) (rest io.Reader, err error)
}

// body converts an answer while it is read. A Read waits for no more than the next part that has an output. Close ends
// a Read if that of the server's body does.
type body struct {
	io.Closer
	converter
	out  bytes.Buffer
	rest io.Reader
	err  error
}

func newBody(from io.ReadCloser, watch bool, o objects) *body {
	if watch {
		return &body{Closer: from, converter: &frames{source: newSource(from, math.MaxInt64), objects: o}}
	}
	l := &list{source: newSource(from, maxList), objects: o, separator: "{"}
	l.source.keep = true
	return &body{Closer: from, converter: l}
}

func (b *body) Read(p []byte) (int, error) {
	for b.out.Len() == 0 {
		switch {
		case b.rest != nil:
			return b.rest.Read(p)
		case b.err != nil:
			return 0, b.err
		}
		b.rest, b.err = b.step(&b.out)
	}
	n, err := b.out.Read(p)
	if b.out.Len() == 0 && b.out.Cap() > maxIdle {
		b.out = bytes.Buffer{}
	}
	return n, err
}
