package door

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// maxUnread is how much a server can write before the client reads, as into the buffers of a TCP connection.
const maxUnread = 256 << 10

// Transport passes requests to a handler in this process. It waits on a sync.Cond only, which is durably blocking for
// testing/synctest.
type Transport struct{ Handler http.Handler }

func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	e := &exchange{client: r.Context(), cancel: cancel, header: http.Header{}}
	e.changed = sync.NewCond(&e.mu)
	context.AfterFunc(ctx, e.wake)
	incoming := r.Clone(ctx)
	incoming.RequestURI, incoming.Host, incoming.RemoteAddr = r.URL.RequestURI(), r.URL.Host, "streamtest"
	if incoming.Body == nil {
		incoming.Body = http.NoBody
	}
	if ctx.Err() != nil {
		_ = incoming.Body.Close()
		return nil, context.Cause(ctx)
	}
	go e.serve(t.Handler, incoming)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.await(r.Context(), func() bool { return e.code != 0 || e.end != nil }); err != nil {
		return nil, err
	}
	if e.code == 0 {
		return nil, e.end
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", e.code, http.StatusText(e.code)), StatusCode: e.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: e.sent, Body: e, ContentLength: -1, Request: r,
	}, nil
}

// exchange is one request and its answer: the http.ResponseWriter of the server, and the body that the client reads.
type exchange struct {
	client context.Context
	cancel context.CancelFunc // ends the request for the handler

	mu      sync.Mutex
	changed *sync.Cond
	header  http.Header // before it is sent
	sent    http.Header
	code    int // 0 until the header is sent
	data    []byte
	end     error // after data; nil while the handler runs
	gone    bool  // the client has closed the body
}

// await waits until done, or until ctx ends. e.mu is held.
func (e *exchange) await(ctx context.Context, done func() bool) error {
	for ctx.Err() == nil && !done() {
		e.changed.Wait()
	}
	return context.Cause(ctx)
}

func (e *exchange) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changed.Broadcast()
}

func (e *exchange) serve(h http.Handler, r *http.Request) {
	defer e.cancel()
	defer func() { _ = r.Body.Close() }()
	defer func() {
		// As in net/http, ErrAbortHandler breaks the connection. Other panics are bugs.
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		} else if p != nil {
			e.breakOff(io.ErrUnexpectedEOF)
		}
		e.breakOff(io.EOF)
	}()
	h.ServeHTTP(e, r)
	e.WriteHeader(http.StatusOK)
}

// breakOff ends the connection with an error, unless it has ended.
func (e *exchange) breakOff(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.end == nil {
		e.end = err
		e.changed.Broadcast()
	}
}

func (e *exchange) Header() http.Header { return e.header }

func (e *exchange) WriteHeader(code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.code == 0 && e.end == nil {
		e.code, e.sent = code, e.header.Clone()
		e.changed.Broadcast()
	}
}

func (e *exchange) Flush() { e.WriteHeader(http.StatusOK) }

// Write waits while too much is unread.
func (e *exchange) Write(p []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.await(e.client, func() bool { return e.gone || e.end != nil || len(e.data) < maxUnread }); err != nil {
		return 0, err
	}
	if e.gone || e.end != nil {
		return 0, io.ErrClosedPipe
	}
	e.data = append(e.data, p...)
	e.changed.Broadcast()
	return len(p), nil
}

var errBodyClosed = errors.New("streamtest: read on closed response body")

func (e *exchange) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.await(e.client, func() bool { return e.gone || e.end != nil || len(e.data) > 0 }); err != nil {
		return 0, err
	}
	switch {
	case e.gone:
		return 0, errBodyClosed
	case len(e.data) == 0:
		return 0, e.end
	}
	n := copy(p, e.data)
	if e.data = e.data[n:]; len(e.data) == 0 {
		e.data = nil
	}
	e.changed.Broadcast()
	return n, nil
}

// Close is called by the client. It ends the request for the handler, too.
func (e *exchange) Close() error {
	e.mu.Lock()
	e.gone, e.data = true, nil
	e.mu.Unlock()
	e.cancel()
	return nil
}
