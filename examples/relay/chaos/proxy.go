package main

import (
	"io"
	"net"
	"sync"
	"time"
)

// proxy passes TCP connections on to a server. A partition makes it swallow what comes from both sides, on open
// connections and on new ones. It may be slow.
type proxy struct {
	listener net.Listener
	server   string

	mu          sync.Mutex
	partitioned bool
	rate        int           // bytes in a second, in each direction of a connection; 0: as fast as it goes
	healed      chan struct{} // closed when the partition ends
	conns       map[net.Conn]bool
}

func startProxy(server string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, server: server, conns: map[net.Conn]bool{}, healed: make(chan struct{})}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.pass(client)
		}
	}()
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) pass(client net.Conn) {
	p.wait(0)
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.conns[client], p.conns[server] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(gate{way[0], p}, way[1])
			client.Close()
			server.Close()
		})
	}
	both.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

const chunk = 4 << 10 // bytes that are written at once

// gate is a connection on which nothing is written during a partition, and slowly if the proxy is slow.
type gate struct {
	net.Conn
	p *proxy
}

func (g gate) Write(data []byte) (written int, err error) {
	for len(data) > 0 && err == nil {
		n := min(len(data), chunk)
		g.p.wait(n)
		n, err = g.Conn.Write(data[:n])
		written, data = written+n, data[n:]
	}
	return written, err
}

// wait waits until there is no partition, and as long as the proxy takes for a number of bytes.
func (p *proxy) wait(bytes int) {
	p.mu.Lock()
	partitioned, healed, rate := p.partitioned, p.healed, p.rate
	p.mu.Unlock()
	if rate > 0 {
		time.Sleep(time.Duration(bytes) * time.Second / time.Duration(rate))
	}
	if partitioned {
		<-healed
	}
}

func (p *proxy) partition() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partitioned, p.healed = true, make(chan struct{})
}

// slow sets the rate.
func (p *proxy) slow(rate int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// heal ends the partition. What was swallowed arrives late; with cut, connections are reset instead.
func (p *proxy) heal(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.partitioned {
		return
	}
	if cut {
		for c := range p.conns {
			c.Close()
		}
	}
	p.partitioned = false
	close(p.healed)
}
