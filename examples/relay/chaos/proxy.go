package main

import (
	"io"
	"net"
	"sync"
)

// proxy passes TCP connections on to a server. A partition makes it swallow what comes from both sides, on open
// connections and on new ones.
type proxy struct {
	listener net.Listener
	server   string

	mu          sync.Mutex
	partitioned bool
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
	p.wait()
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

// gate is a connection on which nothing is written during a partition.
type gate struct {
	net.Conn
	p *proxy
}

func (g gate) Write(data []byte) (int, error) {
	g.p.wait()
	return g.Conn.Write(data)
}

// wait waits until there is no partition.
func (p *proxy) wait() {
	p.mu.Lock()
	partitioned, healed := p.partitioned, p.healed
	p.mu.Unlock()
	if partitioned {
		<-healed
	}
}

func (p *proxy) partition() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partitioned, p.healed = true, make(chan struct{})
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
