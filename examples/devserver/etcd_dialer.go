package devserver

import (
	"context"
	"errors"
	"net"
	"sync"
)

// etcdDialer connects an API server to etcd.
type etcdDialer struct {
	socket string

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// dial ignores the address. It records the connection so that close can close it: etcd waits for its clients to
// disconnect.
func (e *etcdDialer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", e.socket)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	tracked := &trackedConn{Conn: conn, dialer: e}
	if e.conns == nil {
		e.conns = map[net.Conn]bool{}
	}
	e.conns[tracked] = true
	return tracked, nil
}

// close closes all connections, also later ones.
func (e *etcdDialer) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for conn := range e.conns {
		conn.(*trackedConn).Conn.Close()
	}
}

type trackedConn struct {
	net.Conn
	dialer *etcdDialer
}

func (c *trackedConn) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.conns, c)
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}
