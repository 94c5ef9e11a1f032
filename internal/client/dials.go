package client

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// dials is the transport next to the network of a client. While no HTTP/2 connection is free, Go opens one for each
// request that waits, and then closes those that it does not need. So requests get their connections one after the
// other, which takes no time while one is free. On HTTP/1, which needs a connection for each request, they do not wait.
type dials struct {
	next http.RoundTripper
	turn *turn
}

// turn is shared by all transports of a client.
type turn struct {
	held  chan struct{} // has a value while a request has the turn
	http1 atomic.Bool   // the server does not speak HTTP/2
}

func newTurn() *turn { return &turn{held: make(chan struct{}, 1)} }

// maxTurn is how long a request that can't connect delays the others. They may find a connection.
const maxTurn = time.Second

func (d dials) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.turn.http1.Load() {
		return d.next.RoundTrip(r)
	}
	select {
	case d.turn.held <- struct{}{}:
	case <-r.Context().Done():
		return d.next.RoundTrip(r) // returns the error
	}
	end := sync.OnceFunc(func() { <-d.turn.held })
	defer end()
	defer time.AfterFunc(maxTurn, end).Stop()
	return d.next.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			secure, ok := info.Conn.(*tls.Conn)
			if !ok || secure.ConnectionState().NegotiatedProtocol != "h2" {
				d.turn.http1.Store(true)
			}
			end()
		},
	})))
}

func (d dials) WrappedRoundTripper() http.RoundTripper { return d.next }
