package streamtest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
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
	r      *http.Request // its context ends with the connection
	query  *query
	index  int                // in server.requests
	alive  context.Context    // ends with the client, or the server
	drop   context.CancelFunc // ends alive
	cut    context.CancelFunc // ends r's
	how    ending             // of one that was cut; under server.mu
}

var (
	errEnd  = errors.New("the server ends the connection")
	errGone = errors.New("the client has gone")
)

// end ends the connections that match.
func (s *Server) end(how ending, match func(*conn) bool) {
	for c := range s.conns {
		if c.r.Context().Err() == nil && match(c) {
			c.how = how
			c.cut()
		}
	}
}

// over says who has ended the connection.
func (c *conn) over() error {
	if c.alive.Err() != nil {
		return errGone
	}
	return errEnd
}

// wait waits for d, or until the connection ends.
func (c *conn) wait(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.r.Context().Done():
		return c.over()
	}
}

// fallSilent holds the connection until the client gives up.
func (c *conn) fallSilent() {
	<-c.alive.Done()
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
	// An error would be that of a client that has gone: the context says that.
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
