package streamtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// maxUnread is how much a server may write ahead of a client that does not read,
// as the buffers of a TCP connection let it.
const maxUnread = 256 << 10

// transport brings requests to a handler in this process. Nothing in it waits for
// anything but channels, so that it is durable to testing/synctest.
type transport struct{ handler http.Handler }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := context.Cause(r.Context()); err != nil {
		closeBody(r)
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	e := &exchange{
		client: r.Context(), server: ctx, cancel: cancel, header: http.Header{},
		answered: make(chan struct{}), readable: make(chan struct{}, 1), writable: make(chan struct{}, 1),
	}
	incoming := r.Clone(ctx)
	incoming.RequestURI, incoming.Host, incoming.RemoteAddr = r.URL.RequestURI(), r.URL.Host, "streamtest"
	if incoming.Body == nil {
		incoming.Body = http.NoBody
	}
	go e.serve(t.handler, incoming)
	select {
	case <-e.answered:
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.code == 0 {
		return nil, e.end
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", e.code, http.StatusText(e.code)), StatusCode: e.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: e.sent, Body: e, ContentLength: -1, Request: r,
	}, nil
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// exchange is one request and its answer: the server's http.ResponseWriter and
// the body that the client reads.
type exchange struct {
	client, server     context.Context
	cancel             context.CancelFunc
	answered           chan struct{} // closed with the header, or the end
	readable, writable chan struct{} // hold one token where it is worth another look

	mu     sync.Mutex
	header http.Header // the handler's
	sent   http.Header
	code   int // 0 before the header
	data   []byte
	end    error // after data; nil while the handler runs
	gone   bool  // the client has closed the body
}

func (e *exchange) serve(h http.Handler, r *http.Request) {
	defer e.cancel()
	defer closeBody(r)
	defer func() {
		// As net/http does: this panic breaks the connection off, others are bugs.
		if p := recover(); p != nil && p != http.ErrAbortHandler {
			panic(p)
		} else if p != nil {
			e.breakOff(io.ErrUnexpectedEOF)
		}
		e.finish(io.EOF)
	}()
	h.ServeHTTP(e, r)
	e.WriteHeader(http.StatusOK)
}

// breakOff ends the connection with an error of the transport.
func (e *exchange) breakOff(err error) { e.finish(err) }

func (e *exchange) finish(err error) {
	e.mu.Lock()
	if e.end == nil {
		e.end = err
		if e.code == 0 {
			close(e.answered)
		}
	}
	e.mu.Unlock()
	poke(e.readable)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (e *exchange) Header() http.Header { return e.header }

func (e *exchange) WriteHeader(code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.code == 0 && e.end == nil {
		e.code, e.sent = code, e.header.Clone()
		close(e.answered)
	}
}

func (e *exchange) Flush() { e.WriteHeader(http.StatusOK) }

// Write waits while the client leaves too much unread.
func (e *exchange) Write(p []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	for {
		e.mu.Lock()
		switch {
		case e.gone || e.end != nil:
			e.mu.Unlock()
			return 0, io.ErrClosedPipe
		case len(e.data) < maxUnread:
			e.data = append(e.data, p...)
			e.mu.Unlock()
			poke(e.readable)
			return len(p), nil
		}
		e.mu.Unlock()
		select {
		case <-e.writable:
		case <-e.server.Done():
			return 0, context.Cause(e.server)
		}
	}
}

var errBodyClosed = errors.New("streamtest: read on closed response body")

func (e *exchange) Read(p []byte) (int, error) {
	for {
		if err := context.Cause(e.client); err != nil {
			return 0, err
		}
		e.mu.Lock()
		switch {
		case e.gone:
			e.mu.Unlock()
			return 0, errBodyClosed
		case len(e.data) > 0:
			n := copy(p, e.data)
			if e.data = e.data[n:]; len(e.data) == 0 {
				e.data = nil
			}
			e.mu.Unlock()
			poke(e.writable)
			return n, nil
		case e.end != nil:
			err := e.end
			e.mu.Unlock()
			return 0, err
		}
		e.mu.Unlock()
		select {
		case <-e.readable:
		case <-e.client.Done():
		}
	}
}

// Close is the client's: it ends the request for the handler too.
func (e *exchange) Close() error {
	e.mu.Lock()
	e.gone, e.data = true, nil
	e.mu.Unlock()
	e.cancel()
	poke(e.readable)
	return nil
}
