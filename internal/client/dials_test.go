package client_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Go would open a connection for each of these watches, and close all but the needed ones.
func TestWatchesShareConnections(t *testing.T) {
	for _, tt := range []struct {
		why     string
		http2   bool
		streams int // that the server allows on a connection
		watches int
		least   int // connections
		most    int
	}{
		{"one connection is enough", true, 1000, 220, 1, 4},
		{"a kube-apiserver allows 100 streams on a connection", true, 100, 220, 3, 9},
		{"HTTP/1 needs a connection for each watch", false, 0, 20, 20, 40},
	} {
		var opened atomic.Int64
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				opened.Add(1)
			}
		}
		s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: tt.streams}
		s.EnableHTTP2 = tt.http2
		s.StartTLS()
		cfg := &rest.Config{Host: s.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
		if !tt.http2 {
			cfg.NextProtos = []string{"http/1.1"}
		}
		c := nextVariant().clientFor(t, cfg).Resource(things)
		var all sync.WaitGroup
		for range tt.watches {
			all.Go(func() {
				w, err := c.Watch(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(w.Stop)
			})
		}
		all.Wait()
		if n := int(opened.Load()); n < tt.least || n > tt.most {
			t.Errorf("%s: %d connections were opened for %d watches, want %d to %d", tt.why, n, tt.watches, tt.least,
				tt.most)
		}
		s.CloseClientConnections()
		s.Close()
	}
}

// A request that can't connect delays others by a second.
func TestDialThatHangsDelaysOthersBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		over := make(chan struct{})
		hang := func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			<-over
			return nil, net.ErrClosed
		}
		c := nextVariant().clientFor(t, &rest.Config{Host: "https://server.test", QPS: -1, Dial: hang})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() { _, _ = c.Resource(things).List(t.Context(), metav1.ListOptions{}) })
		}
		for want := range int64(2) {
			synctest.Wait()
			if n := dials.Load(); n != 1+want {
				t.Errorf("after %d s: %d connections were dialed, want %d", want, n, 1+want)
			}
			time.Sleep(time.Second)
		}
		close(over)
		all.Wait()
	})
}
