package main

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// relay is a Unix socket between an API server and etcd. It can delay what etcd sends, and cut the connections: etcd
// waits for its clients to disconnect when it stops.
type relay struct {
	path     string
	target   atomic.Pointer[string] // etcd's socket
	delay    atomic.Int64           // time.Duration
	listener net.Listener
	workers  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func startRelay(path string) (*relay, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	r := &relay{path: path, listener: listener, conns: map[net.Conn]bool{}}
	r.workers.Go(func() {
		for {
			server, err := listener.Accept()
			if err != nil {
				return
			}
			etcd, err := net.Dial("unix", *r.target.Load())
			if err != nil { // etcd does not run
				server.Close()
				continue
			}
			r.mu.Lock()
			r.conns[server], r.conns[etcd] = true, true
			r.mu.Unlock()
			r.workers.Go(func() { r.copy(etcd, server, false) })
			r.workers.Go(func() { r.copy(server, etcd, true) })
		}
	})
	return r, nil
}

// copy copies until a connection is closed, and closes both.
func (r *relay) copy(to, from net.Conn, delayed bool) {
	type chunk struct {
		due  time.Time
		data []byte
	}
	chunks := make(chan chunk, 1024)
	r.workers.Go(func() {
		defer r.close(to, from)
		for c := range chunks {
			time.Sleep(time.Until(c.due))
			if _, err := to.Write(c.data); err != nil {
				from.Close()
				for range chunks {
				}
				return
			}
		}
	})
	defer close(chunks)
	for {
		data := make([]byte, 32<<10)
		n, err := from.Read(data)
		if err != nil {
			return
		}
		c := chunk{data: data[:n]}
		if delay := time.Duration(r.delay.Load()); delayed && delay > 0 {
			c.due = time.Now().Add(delay)
		}
		chunks <- c
	}
}

func (r *relay) close(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		c.Close()
		delete(r.conns, c)
	}
}

// lag delays what etcd sends from now on. Zero ends the delay.
func (r *relay) lag(delay time.Duration) { r.delay.Store(int64(delay)) }

// cut closes all connections. The API server opens new ones.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
}

func (r *relay) stop() {
	r.listener.Close()
	r.cut()
	r.workers.Wait()
}
