package door

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// conn is a request that is being served.
type conn struct {
	lock func() (unlock func()) // of the server; guards row.Code
	w    http.ResponseWriter
	r    *http.Request // its context ends when the server or the client ends the connection
	row  *Request      // in the log
	name schema.GroupVersionResource

	alive context.Context         // ends when the client gives up, or the server is closed
	drop  context.CancelFunc      // ends alive
	cut   context.CancelCauseFunc // ends r's, with the error that says how; the first one counts

	untyped bool // the answer has no Content-Type
}

var (
	errEnd    = errors.New("the server ended the connection") // as after timeoutSeconds
	errReset  = errors.New("the server broke the connection")
	errSilent = errors.New("the server sends nothing more") // on a connection that stays open
	errGone   = errors.New("the client ended the connection")
)

// endError says who ended the connection.
func (c *conn) endError() error {
	if c.alive.Err() != nil {
		return errGone
	}
	return errEnd
}

// wait waits for d, or until the connection ends.
func (c *conn) wait(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-c.r.Context().Done():
		return c.endError()
	}
}

// fallSilent keeps the connection open until the client gives up.
func (c *conn) fallSilent() {
	<-c.alive.Done()
	c.reset()
}

// finish ends the connection as cut has been asked to.
func (c *conn) finish() {
	switch context.Cause(c.r.Context()) {
	case errReset:
		c.reset()
	case errSilent:
		c.fallSilent()
	}
}

func (c *conn) header(code int, contentType string) {
	unlock := c.lock()
	c.row.Code = code
	unlock()
	c.w.Header().Set("Content-Type", contentType)
	if c.untyped {
		c.w.Header()["Content-Type"] = nil // net/http must not guess it
	}
	c.w.Header().Set("Cache-Control", "no-cache, private")
	c.w.WriteHeader(code)
}

func (c *conn) flush() {
	// An error means that the client has gone, which the context says too.
	_ = http.NewResponseController(c.w).Flush()
}

// breaker is a ResponseWriter that can end the connection with an error of the transport.
type breaker interface{ breakOff(error) }

// refuse gives the client the error "connection refused" instead of an answer. On a real network, where the
// connection is accepted before this server sees it, the client sees a reset instead.
func (c *conn) refuse() {
	c.breakOff(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
}

// reset breaks the connection.
func (c *conn) reset() {
	c.breakOff(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
}

func (c *conn) breakOff(err error) {
	if w, ok := c.w.(breaker); ok {
		w.breakOff(err)
		return
	}
	hijacked, _, err := http.NewResponseController(c.w).Hijack()
	if err != nil { // HTTP/2, where this resets the stream, or broken before
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := hijacked.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // closing sends RST
	}
	_ = hijacked.Close()
}

// writeHalf writes a few bytes, as a body that is never completed.
func (c *conn) writeHalf() {
	_, _ = io.WriteString(c.w, c.row.format().endless(`{"kind":"`))
	c.flush()
}

const garbage = "this is not JSON\n"

// padding is a part of a text that never ends.
var padding = strings.Repeat("endless ", 4<<10)

// writeEndless writes until the connection ends.
func (c *conn) writeEndless(begin string, more func() string) {
	for _, err := io.WriteString(c.w, begin); err == nil && c.r.Context().Err() == nil; {
		_, err = io.WriteString(c.w, more())
	}
	c.reset()
}

// writeError answers with a Status, and with the header Retry-After if the status has retryAfterSeconds.
func (c *conn) writeError(err error) {
	status := statusOf(err)
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	c.write(int(status.Code), status)
}

// write answers in the format that the client has asked for.
func (c *conn) write(code int, body any) {
	c.header(code, c.row.format().contentType())
	_, _ = c.w.Write(c.row.format().encoded(body))
}

func failure(code int32, reason metav1.StatusReason, message string) error {
	status := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
	return &apierrors.StatusError{ErrStatus: status}
}

func statusOf(err error) metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	out := status.Status()
	out.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	return out
}
