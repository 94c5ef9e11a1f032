package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

var things = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}

const (
	recordings = "../../testdata/objects"

	thing = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"7",` +
		`"managedFields":[{"manager":"m"}]},"spec":{"n":1,"f":1.5,"s":"\u00e9"},"status":{"ok":true}}`
	added   = `{"type":"ADDED","object":` + thing + `}`
	deleted = `{"type":"DELETED","object":` + thing + `}`
	expired = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"message":"too old resource version: 1 (2)","reason":"Expired","code":410}}`
)

// many returns n times text.
func many(n int, text string) string { return strings.Repeat(text, n) }

// listOf returns a list of n things and a last item.
func listOf(n int, last string) string {
	return `{"apiVersion":"example.com/v1","kind":"ThingList","metadata":{"resourceVersion":"7"},"items":[` +
		many(n, thing+",") + last + `]}`
}

func chunksOf(texts ...string) (chunks [][]byte) {
	for _, text := range texts {
		chunks = append(chunks, []byte(text))
	}
	return chunks
}

// every cuts data into chunks of n bytes.
func every(n int, data []byte) [][]byte { return slices.Collect(slices.Chunk(data, n)) }

// variant is a way to make a client.
type variant struct {
	name string
	opts *client.Options // nil for client-go's dynamic client
}

var stock = variant{name: "client-go"}

// variants returns clients with all sorts of Options.
func variants() []variant {
	return []variant{
		{"plain", &client.Options{}},
		{"no managedFields", &client.Options{DropManagedFields: true}},
	}
}

var turn atomic.Int64

// nextVariant returns each variant in turn.
func nextVariant() variant { return variants()[int(turn.Add(1))%len(variants())] }

func (v variant) client(t testing.TB, transport http.RoundTripper, warn rest.WarningHandler) dynamic.Interface {
	t.Helper()
	return v.clientFor(t, &rest.Config{Host: "http://server.test", QPS: -1, Transport: transport, WarningHandler: warn})
}

func (v variant) clientFor(t testing.TB, cfg *rest.Config) dynamic.Interface {
	t.Helper()
	if cfg.WarningHandler == nil {
		cfg.WarningHandler = rest.NoWarnings{}
	}
	c, err := dynamic.Interface(nil), error(nil)
	if v.opts == nil {
		c, err = dynamic.NewForConfig(cfg)
	} else {
		c, err = client.New(cfg, *v.opts)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// prune returns what v returns of an object that client-go decodes whole.
func (v variant) prune(o map[string]any) map[string]any {
	o = decodetest.Copy(o)
	if v.opts.DropManagedFields {
		unstructured.RemoveNestedField(o, "metadata", "managedFields")
	}
	return o
}

// served is the answer of a server to each request.
type served struct {
	status int // 200 if zero
	header map[string]string
	chunks [][]byte      // of the body, each for one or more Reads
	end    error         // of the Read after the last chunk, io.EOF if nil
	with   bool          // the Read that ends the last chunk returns end, too
	gate   chan struct{} // if not nil, each chunk and the end wait until it receives
}

// server gives one answer to all requests, and records the requests.
type server struct {
	served
	mu     sync.Mutex
	asked  []string
	bodies []*body
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var content bytes.Buffer
	if r.Body != nil {
		_, _ = content.ReadFrom(r.Body)
		r.Body.Close()
	}
	header := maps.Clone(r.Header)
	delete(header, "Accept-Encoding") // differs from client-go's, as the parameter drop does
	if kind, ok := strings.CutSuffix(r.Header.Get("Accept"), ";drop=metadata.managedFields,application/json"); ok {
		header.Set("Accept", kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprint(r.Method, " ", r.URL, " ", header, " ", content.String()))
	answer := s.served
	answer.chunks = slices.Clone(answer.chunks) // the body changes them
	s.bodies = append(s.bodies, &body{served: answer, ctx: r.Context(), closed: make(chan struct{})})
	code := max(s.status, http.StatusOK)
	resp := &http.Response{
		StatusCode: code, Status: fmt.Sprint(code, " ", http.StatusText(code)), Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: s.bodies[len(s.bodies)-1],
		ContentLength: -1, Request: r,
	}
	for name, value := range s.header {
		resp.Header.Set(name, value)
		if value == "" {
			resp.Header.Del(name)
		}
	}
	return resp, nil
}

// body is the body of an answer.
type body struct {
	served
	ctx    context.Context // of the request
	begun  bool            // part of the first chunk has been read
	over   bool            // the end has been read
	read   atomic.Int64    // bytes
	once   sync.Once
	closed chan struct{}
}

var errClosedBody = errors.New("http2: response body closed")

func (b *body) Read(p []byte) (int, error) {
	gate := b.gate
	if gate == nil || b.begun || b.over {
		gate = make(chan struct{})
		close(gate)
	}
	select {
	case <-b.closed:
		return 0, errClosedBody
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-gate:
	}
	end := b.end
	if end == nil {
		end = io.EOF
	}
	if len(b.chunks) == 0 {
		b.over = true
		return 0, end
	}
	n := copy(p, b.chunks[0])
	b.read.Add(int64(n))
	b.chunks[0] = b.chunks[0][n:]
	if b.begun = len(b.chunks[0]) > 0; b.begun {
		return n, nil
	}
	b.chunks = b.chunks[1:]
	if len(b.chunks) == 0 && b.with {
		b.over = true
		return n, end
	}
	return n, nil
}

func (b *body) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(code int, body io.ReadCloser) (*http.Response, error) {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
	}, nil
}

// changes returns n events, whose resourceVersions show their order.
func changes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b,
			`{"type":"MODIFIED","object":{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a",`+
				`"resourceVersion":"%d"}}}`+"\n", i+1)
	}
	return b.String()
}
