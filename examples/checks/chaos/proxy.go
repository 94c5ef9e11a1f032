package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// proxy is between the clients and the API servers. It has an address for HTTP/1.1 and one for HTTP/2, both with the
// servers' certificate. Its faults hit all clients alike.
type proxy struct {
	http1, http2 net.Listener
	servers      [2]*http.Server
	transport    *http.Transport
	done         sync.WaitGroup
	rate         atomic.Int64 // bytes a second of each connection; 0 means no limit
	state        proxyState
}

// proxyState is what faults change.
type proxyState struct {
	mu       sync.Mutex
	conns    map[*proxyConn]bool
	watches  map[*frames]bool
	accepted int
	backends []backend       // none means that connections are reset
	users    map[string]user // by the clients' bearer tokens
	answer   *falseAnswer    // instead of the servers' answers
	dead     bool            // new connections are half-open
}

// backend is a server. Its bearer tokens differ from those of its clients, which change when a fault says so.
type backend struct {
	address string
	tokens  map[user]string
}

// user is an administrator, or one whose rights change.
type user string

const (
	adminUser   user = "admin"
	limitedUser user = "limited"
)

// tokenFile has the bearer token of the user.
func (u user) tokenFile(dir string) string { return filepath.Join(dir, string(u)+".token") }

func startProxy(certificate tls.Certificate) (*proxy, error) {
	roots := x509.NewCertPool()
	roots.AddCert(certificate.Leaf)
	p := &proxy{transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12},
		DisableCompression:  true, // a client that wants it asks for it
		MaxIdleConnsPerHost: 50,
	}}
	p.state.conns, p.state.watches = map[*proxyConn]bool{}, map[*frames]bool{}
	handler := http.HandlerFunc(p.serve)
	for i := range p.servers {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.stop()
			return nil, err
		}
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		if p.http1 == nil {
			p.http1 = listener
		} else {
			protocols.SetHTTP2(true)
			p.http2 = listener
		}
		p.servers[i] = &http.Server{
			Handler:     handler,
			Protocols:   protocols,
			TLSConfig:   &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
			ErrorLog:    log.New(io.Discard, "", 0),
			ConnContext: rememberConn,
		}
		p.done.Go(func() { p.servers[i].ServeTLS(proxyListener{listener, p}, "", "") })
	}
	return p, nil
}

func (p *proxy) stop() {
	for _, s := range p.servers {
		if s != nil {
			s.Close()
		}
	}
	p.done.Wait()
	p.transport.CloseIdleConnections()
}

// admit returns nil if the connection is refused.
func (p *proxy) admit(conn net.Conn) net.Conn {
	p.state.mu.Lock()
	p.state.accepted++
	c := &proxyConn{Conn: conn, rate: &p.rate, forget: p.forget, number: p.state.accepted}
	p.state.conns[c] = true
	refused := len(p.state.backends) == 0
	c.dead.Store(p.state.dead)
	p.state.mu.Unlock()
	if refused {
		c.reset()
		return nil
	}
	return c
}

func (p *proxy) forget(c *proxyConn) {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	delete(p.state.conns, c)
}

type connKey struct{}

func rememberConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c.(*tls.Conn).NetConn().(*proxyConn))
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	conn := r.Context().Value(connKey{}).(*proxyConn)
	p.state.mu.Lock()
	backends, answer := p.state.backends, p.state.answer
	who, known := p.state.users[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	p.state.mu.Unlock()
	if len(backends) == 0 {
		panic(http.ErrAbortHandler)
	}
	to := backends[conn.number%len(backends)]
	reverse := &httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) {
			out.SetURL(&url.URL{Scheme: "https", Host: to.address})
			if known {
				out.Out.Header.Set("Authorization", "Bearer "+to.tokens[who])
			}
			if isWatch(r) { // so that frames can be cut and added
				out.Out.Header.Del("Accept-Encoding")
			}
		},
		Transport:     p.transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ModifyResponse: func(response *http.Response) error {
			if isWatch(r) && response.StatusCode == http.StatusOK {
				response.Body = p.newFrames(response, conn)
			}
			return nil
		},
	}
	if answer != nil {
		answer.respond(w, r, reverse)
		return
	}
	reverse.ServeHTTP(w, r)
}

func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// use sends new requests to other servers. Requests on open connections may move to another server, too.
func (p *proxy) use(backends ...backend) {
	p.state.mu.Lock()
	p.state.backends = backends
	p.state.mu.Unlock()
	p.transport.CloseIdleConnections()
}

// accept sets the clients' bearer tokens. The servers refuse all others.
func (p *proxy) accept(users map[string]user) {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	p.state.users = users
}

// answerWith answers falsely from now on. Nil ends that.
func (p *proxy) answerWith(a *falseAnswer) {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	p.state.answer = a
}

// some returns the connections that choose accepts. Each has a number of its own, in the order of their creation.
func (p *proxy) some(choose func(n int) bool) []*proxyConn {
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(p.state.conns), func(a, b *proxyConn) int { return a.number - b.number })
	return slices.DeleteFunc(all, func(c *proxyConn) bool { return !choose(c.number) })
}

func everyConn(int) bool { return true }

// reset resets connections.
func (p *proxy) reset(choose func(n int) bool) {
	for _, c := range p.some(choose) {
		c.reset()
	}
}

// swallow makes connections half-open, for ever. With more, also those that are opened from now on.
func (p *proxy) swallow(more bool) []*proxyConn {
	p.state.mu.Lock()
	p.state.dead = more
	p.state.mu.Unlock()
	conns := p.some(everyConn)
	for _, c := range conns {
		c.dead.Store(true)
	}
	return conns
}

// revive resets all half-open connections, and makes new ones work.
func (p *proxy) revive() {
	p.state.mu.Lock()
	p.state.dead = false
	p.state.mu.Unlock()
	for _, c := range p.some(everyConn) {
		if c.dead.Load() {
			c.reset()
		}
	}
}
