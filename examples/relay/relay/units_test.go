package relay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/relay"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const serveUnits = "GVRWATCH_TEST_SERVE_UNITS" // makes this binary an API server with so many resources

func TestMain(m *testing.M) {
	var n int
	if fmt.Sscan(os.Getenv(serveUnits), &n); n == 0 {
		os.Exit(m.Run())
	}
	var resources []gvr.Resource
	for i := range n {
		resources = append(resources, resource("example.com", fmt.Sprint("Kind", i), fmt.Sprintf("kind%ds", i), true))
	}
	srv := streamtest.NewServer(resources...)
	for _, r := range resources {
		srv.Put(r, "ns", "a")
	}
	fmt.Println(httptest.NewServer(srv).URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends
}

// BenchmarkUnits shows what a unit takes beside its objects: goroutines, and bytes of live heap, of a replica with 500
// units of one object each. The server is another process.
func BenchmarkUnits(b *testing.B) {
	const units = 500
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), fmt.Sprintf("%s=%d", serveUnits, units))
	in, err := server.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	defer server.Wait()
	defer in.Close()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		heap, goroutines := inUse()
		var log engine.Memory
		cfg := &rest.Config{Host: strings.TrimSpace(url), QPS: -1}
		dc, err := discovery.NewClient(cfg)
		if err != nil {
			b.Fatal(err)
		}
		client, err := stream.NewClient(cfg, nil)
		if err != nil {
			b.Fatal(err)
		}
		second := metav1.Duration{Duration: 5 * time.Second}
		complete := relay.Config{
			NATS: relay.NATS{URL: "none"}, Replica: relay.Replica{ID: "one", Lease: second, Grace: second},
		}
		if err := complete.Complete(); err != nil {
			b.Fatal(err)
		}
		r, err := relay.New(complete, &log, &log, relay.Options{Connections: []*relay.Connection{{
			Name: "test", Config: cfg, Client: client, Resolver: discovery.NewResolver(dc, 0),
		}}})
		if err != nil {
			b.Fatal(err)
		}
		ctx, end := context.WithCancel(b.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		for r.Ready() != nil || len(r.Status().Units) < units {
			select {
			case err := <-ended:
				b.Fatalf("Run has ended: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
		}
		more, moreGoroutines := inUse()
		b.ReportMetric(float64(more-heap)/units, "heap-bytes/unit")
		b.ReportMetric(float64(moreGoroutines-goroutines)/units, "goroutines/unit")
		end()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	}
}

func inUse() (heap int64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), runtime.NumGoroutine()
}
