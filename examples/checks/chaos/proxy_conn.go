package main

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// proxyConn is a connection of a client to the proxy.
type proxyConn struct {
	net.Conn
	rate   *atomic.Int64    // of the proxy
	forget func(*proxyConn) // by the proxy
	number int              // counts the connections
	dead   atomic.Bool      // swallows what is sent in both directions
	once   sync.Once
}

// Read returns what the client sent. On a dead connection it returns only once that is closed.
func (c *proxyConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.dead.Load() {
			return n, err
		}
	}
}

func (c *proxyConn) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		if c.dead.Load() {
			return len(b), nil
		}
		piece := b[written:]
		if rate := int(c.rate.Load()); rate > 0 {
			const tick = 10 * time.Millisecond
			if perTick := max(rate/int(time.Second/tick), 1); len(piece) > perTick {
				piece = piece[:perTick]
			}
			time.Sleep(tick)
		}
		n, err := c.Conn.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

func (c *proxyConn) Close() error {
	c.once.Do(func() { c.forget(c) })
	return c.Conn.Close()
}

// reset closes the connection with a TCP reset.
func (c *proxyConn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}

// proxyListener accepts the connections of a proxy.
type proxyListener struct {
	net.Listener
	proxy *proxy
}

func (l proxyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.proxy.admit(conn); c != nil {
			return c, nil
		}
	}
}
