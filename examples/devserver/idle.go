package devserver

import (
	"net"
	"sync"
)

// idleListener stands in for the API server's own listener. The library can
// serve a listener by itself, but it leaves connections open that outlast its
// shutdown timeout, writes errors to standard error and panics if Accept fails.
// So it gets a listener that never accepts, and httpServer serves instead.
type idleListener struct {
	closed chan struct{}
	once   sync.Once
}

func newIdleListener() *idleListener { return &idleListener{closed: make(chan struct{})} }

func (l *idleListener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *idleListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *idleListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
