package devserver

import (
	"context"
	"crypto/tls"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// httpServer serves the API. It can be closed at any time, even before it serves.
type httpServer struct {
	listener       net.Listener
	server         *http.Server
	cancelRequests context.CancelFunc
	goroutines     sync.WaitGroup

	mu       sync.Mutex
	idle     *sync.Cond // broadcast when active becomes 0
	active   int        // requests in flight
	draining bool
}

func newHTTPServer(listener net.Listener) *httpServer {
	h := &httpServer{listener: listener}
	h.idle = sync.NewCond(&h.mu)
	ctx, cancel := context.WithCancel(context.Background())
	h.cancelRequests = cancel
	h.server = &http.Server{
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    log.New(sink, "", log.LstdFlags),
		// As in kube-apiserver:
		MaxHeaderBytes:    1 << 20,
		IdleTimeout:       90 * time.Second,
		ReadHeaderTimeout: 32 * time.Second,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 100},
	}
	return h
}

func (h *httpServer) serve(handler http.Handler, certificate tls.Certificate) {
	h.server.Handler = h.count(handler)
	h.server.TLSConfig = &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{certificate},
	}
	h.goroutines.Go(func() {
		h.server.ServeTLS(h.listener, "", "") // ends with the listener, which shutdown closes
	})
}

// count counts the requests in flight, because net/http does not wait for the handlers of connections that it closes.
func (h *httpServer) count(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		if h.draining {
			h.mu.Unlock()
			http.Error(w, "the server is stopped", http.StatusServiceUnavailable)
			return
		}
		h.active++
		h.mu.Unlock()
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.active--; h.active == 0 {
				h.idle.Broadcast()
			}
		}()
		handler.ServeHTTP(w, r)
	})
}

// shutdown stops listening and asks clients to disconnect. It does not wait for them.
func (h *httpServer) shutdown() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	h.server.Shutdown(ctx) // fails at once if connections are open
	h.listener.Close()     // a server that never served does not close it
}

// close ends all connections and requests, and waits until the requests have returned.
func (h *httpServer) close() {
	h.shutdown()
	h.mu.Lock()
	h.draining = true
	h.mu.Unlock()
	h.cancelRequests()
	h.server.Close()
	h.goroutines.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.active > 0 {
		h.idle.Wait()
	}
}
