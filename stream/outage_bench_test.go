package stream_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// BenchmarkOutage measures, with the real clock, how long 10,000 Streams of one client take to watch again after an
// outage of 30 s. The server is in this process, on loopback, and speaks HTTP/2.
func BenchmarkOutage(b *testing.B) {
	for range b.N {
		back := newOutage(b, 10_000).pass(30 * time.Second)
		slices.Sort(back)
		b.ReportMetric(back[0].Seconds(), "s-first")
		b.ReportMetric(back[len(back)/10].Seconds(), "s-tenth")
		b.ReportMetric(back[len(back)/2].Seconds(), "s-half")
		b.ReportMetric(back[len(back)-1].Seconds(), "s-all")
	}
	b.ReportMetric(0, "ns/op")
}

// outage is a server that fails for a while, and Streams that watch it.
type outage struct {
	b        *testing.B
	mu       sync.Mutex
	up       chan struct{} // closed when the server fails
	ended    time.Time     // the outage; zero before its end
	back     []time.Duration
	watching atomic.Int64
	streams  int
}

func newOutage(b *testing.B, n int) *outage {
	o := &outage{b: b, up: make(chan struct{}), streams: n}
	srv := httptest.NewUnstartedServer(o)
	srv.EnableHTTP2, srv.Config.ErrorLog = true, log.New(io.Discard, "", 0)
	srv.StartTLS()
	cfg := &rest.Config{Host: srv.URL}
	cfg.Insecure = true
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	var running sync.WaitGroup
	for range n {
		s, err := stream.New(client, widgets(), &stream.Options{Requests: stream.Requests{PagedLists: true}})
		if err != nil {
			b.Fatal(err)
		}
		running.Go(func() {
			for range s.Events(ctx) {
			}
		})
	}
	b.Cleanup(func() {
		cancel(errTimeUp)
		running.Wait()
		srv.Close()
	})
	return o
}

func (o *outage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	up := o.up
	o.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case up == nil:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Query().Get("watch") == "":
		_, _ = fmt.Fprint(w, `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"5"},`+
			`"items":[]}`)
	default:
		o.watch(w, r, up)
	}
}

func (o *outage) watch(w http.ResponseWriter, r *http.Request, up <-chan struct{}) {
	_ = http.NewResponseController(w).Flush()
	o.watching.Add(1)
	defer o.watching.Add(-1)
	o.mu.Lock()
	if !o.ended.IsZero() {
		o.back = append(o.back, time.Since(o.ended))
	}
	o.mu.Unlock()
	select {
	case <-up:
	case <-r.Context().Done():
	}
}

// pass lets the outage pass. It returns how long after its end each watch was open.
func (o *outage) pass(lasts time.Duration) []time.Duration {
	o.await(func() bool { return int(o.watching.Load()) == o.streams })
	o.b.ResetTimer()
	o.mu.Lock()
	close(o.up)
	o.up = nil
	o.mu.Unlock()
	time.Sleep(lasts)
	o.mu.Lock()
	o.up, o.ended = make(chan struct{}), time.Now()
	o.mu.Unlock()
	o.await(func() bool { return int(o.watching.Load()) == o.streams })
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.back)
}

func (o *outage) await(done func() bool) {
	o.b.Helper()
	for began := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			o.b.Fatalf("%d of %d watches are open after 2 minutes", o.watching.Load(), o.streams)
		}
	}
}
