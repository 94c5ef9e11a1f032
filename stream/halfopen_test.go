package stream_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// network connects a client with a server in memory.
type network struct {
	accept chan net.Conn
	down   chan struct{} // closed at the end
	mu     sync.Mutex
	wires  []*wire
}

func (n *network) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	w := &wire{Conn: client}
	n.mu.Lock()
	n.wires = append(n.wires, w)
	n.mu.Unlock()
	select {
	case n.accept <- server:
		return w, nil
	case <-n.down:
		return nil, net.ErrClosed
	}
}

// swallow makes all connections half-open: from now on nothing arrives on either side.
func (n *network) swallow() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.wires {
		w.swallows.Store(true)
	}
}

func (n *network) dialed() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.wires)
}

// breakOff closes all connections, and refuses new ones.
func (n *network) breakOff() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.wires {
		_ = w.Close()
	}
	close(n.down)
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case conn := <-n.accept:
		return conn, nil
	case <-n.down:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error { return nil }

func (n *network) Addr() net.Addr { return &net.TCPAddr{} }

// open returns how many connections the client has not closed.
func (n *network) open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := 0
	for _, w := range n.wires {
		if !w.closed.Load() {
			open++
		}
	}
	return open
}

// wire is a connection that can become half-open.
type wire struct {
	net.Conn
	swallows atomic.Bool
	closed   atomic.Bool
}

func (w *wire) Close() error {
	w.closed.Store(true)
	return w.Conn.Close()
}

func (w *wire) Read(p []byte) (int, error) {
	for {
		n, err := w.Conn.Read(p)
		if err != nil || !w.swallows.Load() {
			return n, err
		}
	}
}

func (w *wire) Write(p []byte) (int, error) {
	if w.swallows.Load() {
		return len(p), nil
	}
	return w.Conn.Write(p)
}

// TestHalfOpenConnectionsAreReplaced: a connection that died without being closed carries no further request of the
// client. On HTTP/2 all its watches share it, and Go itself notices only after 45 seconds.
func TestHalfOpenConnectionsAreReplaced(t *testing.T) {
	const idle = 5 * time.Second
	defer emptyPools()
	for _, tt := range []struct {
		http2   bool
		watches int
		closed  bool          // the connection dies when a watch has been closed, so the probe after it gets no answer
		timeout time.Duration // of the client's requests, without a limit if 0
		most    time.Duration // until all Streams receive events again
		dials   int           // at most
		why     string
	}{
		{true, 3, false, 0, idle + time.Second, 1 + 3, "at most one new connection for each request at the time"},
		{true, 1, true, 0, 16 * time.Second, 2, "an unanswered probe shows that the connection is dead"},
		{true, 1, true, 10 * time.Second, 16 * time.Second, 2, "so does one that the client's timeout has ended"},
		{false, 3, false, 0, idle + time.Second, 4 * 3, "each request has its own connection"},
		{false, 1, true, 0, 16 * time.Second, 2, "the connection of the closed watch is idle when it dies"},
	} {
		t.Run(fmt.Sprint(tt.http2, tt.closed, tt.timeout), func(t *testing.T) {
			emptyPools()
			synctest.Test(t, func(t *testing.T) {
				n := &network{accept: make(chan net.Conn), down: make(chan struct{})}
				closing := make(chan struct{})
				srv := serveOn(n, tt.http2, closing)
				cfg := &rest.Config{Host: "https://server.test", Dial: n.dial, Timeout: tt.timeout}
				cfg.Insecure = true
				if !tt.http2 {
					cfg.NextProtos = []string{"http/1.1"}
				}
				client, err := stream.NewClient(cfg, nil)
				noError(t, err)

				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				died := make(chan struct{})
				again := make(chan bool, tt.watches) // receives once for each Stream that receives events again
				for range tt.watches {
					time.Sleep(time.Second) // or each of them would open an HTTP/2 connection
					var once sync.Once
					s := newStream(t, client, &setup{Options: stream.Options{Trace: &stream.Trace{
						FrameReceived: func(stream.Event) {
							select {
							case <-died:
								once.Do(func() { again <- true })
							default:
							}
						},
						WatchClosed: func(stream.Request) {
							if tt.closed && n.dialed() == 1 {
								n.swallow()
							}
						},
					}, Requests: stream.Requests{IdleTimeout: idle}}})
					running.Go(func() {
						for range s.Events(ctx) {
						}
					})
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if tt.closed {
					close(closing)
				} else {
					n.swallow()
				}
				synctest.Wait()
				close(died)
				began := time.Now()
				for range tt.watches {
					<-again
				}
				if took := time.Since(began); took > tt.most {
					t.Errorf("%s: events again after %v, want within %v", tt.why, took, tt.most)
				}
				if d := n.dialed(); d > tt.dials {
					t.Errorf("%s: %d connections, want at most %d", tt.why, d, tt.dials)
				}
				cancel()
				running.Wait()
				n.breakOff()
				srv.Close()
			})
		})
	}
}

// TestSilentWatchesLeaveNoConnections: a quiet server does not collect the connections of watches that fell silent.
func TestSilentWatchesLeaveNoConnections(t *testing.T) {
	defer emptyPools()
	for _, http2 := range []bool{true, false} {
		emptyPools()
		synctest.Test(t, func(t *testing.T) {
			n := &network{accept: make(chan net.Conn), down: make(chan struct{})}
			srv := serveOn(n, http2, nil)
			srv.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(describe(r), "watch") {
					serveBookmarks(w, r, nil)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			cfg := &rest.Config{Host: "https://server.test", Dial: n.dial}
			cfg.Insecure = true
			client, err := stream.NewClient(cfg, nil)
			noError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for range newStream(t, client,
				&setup{Options: stream.Options{Requests: stream.Requests{IdleTimeout: time.Second}}}).Events(ctx) {
			}
			synctest.Wait()
			if open := n.open(); open > 2 {
				t.Errorf("HTTP/2 %v: %d of %d connections are open, want at most 2", http2, open, n.dialed())
			}
			n.breakOff()
			srv.Close()
		})
	}
}

// emptyPools frees what sync.Pools hold. Before Go 1.26 all HTTP/2 servers share a pool of channels, and a bubble must
// not receive from a channel of another one.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

func serveOn(n *network, http2 bool, closing chan struct{}) *httptest.Server {
	return serve(n, http2, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serveBookmarks(w, r, closing)
	}))
}

func serve(n *network, http2 bool, h http.Handler) *httptest.Server {
	srv := httptest.NewUnstartedServer(h)
	_ = srv.Listener.Close()
	srv.Listener, srv.EnableHTTP2, srv.Config.ErrorLog = n, http2, log.New(io.Discard, "", 0)
	srv.StartTLS()
	return srv
}

// serveBookmarks answers a list with nothing, and a watch with a bookmark each second. Watches that are open when
// closing is closed end.
func serveBookmarks(w http.ResponseWriter, r *http.Request, closing chan struct{}) {
	w.Header().Set("Content-Type", "application/json")
	if !strings.HasPrefix(describe(r), "watch") {
		resp, _ := list("5", "")(r)
		_, _ = io.Copy(w, resp.Body)
		return
	}
	select {
	case <-closing:
		closing = nil
	default:
	}
	for {
		fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"kind":"Widget","apiVersion":"example.com/v1",`+
			`"metadata":{"resourceVersion":"5"}}}`)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(time.Second):
		case <-closing:
			return
		case <-r.Context().Done():
			return
		}
	}
}
