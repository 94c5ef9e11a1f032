package client

import (
	"net/http"
	"sync"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// connections is the transport of a client. It can replace the connections of all later requests by new ones, because
// one that died without being closed goes on to carry requests: on HTTP/2 all requests of client-go share a connection,
// and Go notices that it is dead after 45 s (utilnet.configureHTTP2Transport).
type connections struct {
	config  *rest.Config
	current atomic.Pointer[generation]
	leaving sync.Mutex
}

// generation is a transport with connections of its own. The first one shares those of client-go.
type generation struct{ http.RoundTripper }

func newConnections(c *rest.Config) (*connections, error) {
	first, err := rest.TransportFor(c)
	if err != nil {
		return nil, err
	}
	cs := &connections{config: rest.CopyConfig(c)}
	cs.current.Store(&generation{first})
	if cs.config.Proxy == nil {
		// This is client-go's default, too. But transports of a config with a Proxy are not cached (tlsTransportCache).
		cs.config.Proxy = http.ProxyFromEnvironment
	}
	return cs, nil
}

func (cs *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	g := cs.current.Load()
	if c, _ := r.Context().Value(callKey{}).(*call); c != nil {
		c.sentOn = g
	}
	return g.RoundTrip(r)
}

// leave makes all later requests use new connections, unless they do already. It closes the idle ones of left: they are
// idle when their last watch has ended. A config with a Transport has no others: then leave does only that.
func (cs *connections) leave(left *generation) {
	cs.leaving.Lock()
	defer cs.leaving.Unlock()
	if left == nil {
		return
	}
	if cs.current.Load() == left {
		if next, err := rest.TransportFor(cs.config); err == nil {
			cs.current.Store(&generation{next})
		}
	}
	closeIdle(left.RoundTripper)
}

// closeIdle closes idle connections. Those in use are closed 90 s after their last request (http.Transport).
func closeIdle(t http.RoundTripper) {
	switch t := t.(type) {
	case interface{ CloseIdleConnections() }:
		t.CloseIdleConnections()
	case utilnet.RoundTripperWrapper:
		closeIdle(t.WrappedRoundTripper())
	}
}
