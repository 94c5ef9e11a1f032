package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
)

// served is what a server answers with. It is the same for each request.
type served struct {
	status int // 200 if zero
	header map[string]string
	chunks [][]byte // that come one after the other
	// end is the error after them, io.EOF if nil; with is whether the last chunk comes
	// with it.
	end  error
	with bool
	// Each chunk, and the end, waits for one of these, if it is not nil.
	gate chan struct{}
}

// server answers everything with one answer, and keeps what was asked.
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
	var content []byte
	if r.Body != nil {
		var err error
		if content, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	header := maps.Clone(r.Header)
	delete(header, "Accept-Encoding") // which is to differ
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprint(r.Method, " ", r.URL, " ", header, " ", string(content)))
	answer := s.served
	answer.chunks = slices.Clone(answer.chunks) // of which the body leaves nothing
	s.bodies = append(s.bodies, &body{served: answer, ctx: r.Context(), closed: make(chan struct{})})
	resp := &http.Response{
		StatusCode: s.status, Proto: "HTTP/2.0", ProtoMajor: 2, ContentLength: -1, Request: r, Header: http.Header{},
		Body: s.bodies[len(s.bodies)-1],
	}
	if s.status == 0 {
		resp.StatusCode = http.StatusOK
	}
	resp.Status = fmt.Sprint(resp.StatusCode, " ", http.StatusText(resp.StatusCode))
	resp.Header.Set("Content-Type", "application/json")
	for name, value := range s.header {
		resp.Header.Set(name, value)
		if value == "" {
			resp.Header.Del(name)
		}
	}
	return resp, nil
}

// body is the body of an answer, which comes in chunks.
type body struct {
	served
	ctx    context.Context // of the request, as a transport has it
	begun  bool            // whether some of the first of chunks has been read
	over   bool            // whether the end has been
	read   atomic.Int64    // bytes
	once   sync.Once
	closed chan struct{}
}

var errClosedBody = errors.New("http2: response body closed")

func (b *body) Read(p []byte) (int, error) {
	if err := b.await(); err != nil {
		return 0, err
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

// await is what may keep a Read from what there is.
func (b *body) await() error {
	gate := b.gate
	if b.begun || b.over {
		gate = nil
	}
	if gate == nil {
		gate = make(chan struct{})
		close(gate)
	}
	select {
	case <-b.closed:
		return errClosedBody
	case <-b.ctx.Done():
		return b.ctx.Err()
	case <-gate:
		return nil
	}
}

func (b *body) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}
