package devserver

import (
	"net"
	"sync"
)

// idleListener never accepts a connection. The API server gets it instead of the real listener, which httpServer
// serves: the API server would leave connections open after its shutdown timeout, write errors to standard error, and
// panic if Accept fails.
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
