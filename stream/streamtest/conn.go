package streamtest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// ending is how the server ends a connection.
type ending int

const (
	endClean  ending = iota // as after timeoutSeconds
	endReset                // the connection breaks
	endSilent               // it stays open, and nothing comes any more
)

// conn is a request being served.
type conn struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	query  *query
	index  int // in server.requests

	// Closed, after how was set, to end the connection. Under server.mu.
	cut   chan struct{}
	how   ending
	isCut bool
}

var (
	errEnd  = errors.New("the server ends the connection")
	errGone = errors.New("the client has gone")
)

func watchesOf(r gvr.Resource) func(*conn) bool {
	return func(c *conn) bool {
		return c.query.Verb == "watch" && c.query.resource.GroupVersionResource == r.GroupVersionResource
	}
}

// end ends the connections that match.
func (s *Server) end(how ending, match func(*conn) bool) {
	for c := range s.conns {
		if !c.isCut && match(c) {
			c.isCut, c.how = true, how
			close(c.cut)
		}
	}
}

func (c *conn) closed() bool {
	select {
	case <-c.server.closed:
		return true
	default:
		return false
	}
}

// wait waits for d, or without one for ever, or until the connection ends.
func (c *conn) wait(d time.Duration) error {
	var after <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-after:
		return nil
	case <-c.cut:
		return errEnd
	case <-c.r.Context().Done():
	case <-c.server.closed:
	}
	return errGone
}

// fallSilent holds the connection until the client gives up.
func (c *conn) fallSilent() {
	select {
	case <-c.r.Context().Done():
	case <-c.server.closed:
	}
	c.reset()
}

// finish ends the connection in the way that the server wants it.
func (c *conn) finish() {
	c.server.mu.Lock()
	how := c.how
	c.server.mu.Unlock()
	switch how {
	case endReset:
		c.reset()
	case endSilent:
		c.fallSilent()
	}
}

func (c *conn) header(code int, contentType string) {
	c.server.mu.Lock()
	c.server.requests[c.index].Code = code
	c.server.mu.Unlock()
	c.w.Header().Set("Content-Type", contentType)
	c.w.Header().Set("Cache-Control", "no-cache, private")
	c.w.WriteHeader(code)
}

func (c *conn) flush() {
	// An error would be that of a client that has gone: the context tells that.
	_ = http.NewResponseController(c.w).Flush()
}

// broken is the writer of a transport that can end with an error of its own.
type broken interface{ breakOff(error) }

// refuse gives the client an error instead of an answer: connection refused. Over
// a real network the connection has been accepted before this server sees it, so
// that the client finds it reset instead.
func (c *conn) refuse() {
	c.breakOff(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
}

// reset breaks the connection off.
func (c *conn) reset() {
	c.breakOff(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
}

func (c *conn) breakOff(err error) {
	if w, ok := c.w.(broken); ok {
		w.breakOff(err)
		return
	}
	hijacked, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil { // HTTP/2, where this resets the stream, or broken off before
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := hijacked.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closing sends RST
	}
	_ = hijacked.Close()
}

// half writes the beginning of a body.
func (c *conn) half() {
	_, _ = io.WriteString(c.w, `{"kind":"`)
	c.flush()
}
