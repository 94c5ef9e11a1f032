package metrics_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gvrwatch/gvrwatch/examples/metrics"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A Stream with metrics and health checks, here on a scripted server.
func Example() {
	srv := streamtest.NewServer(pods)
	defer srv.Close()
	srv.Put(pods, "shop", "web")
	client := srv.Client()

	m := metrics.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	http.Handle("/healthz", m.Healthz(10*time.Minute))
	http.Handle("/readyz", m.Readyz())
	s, err := stream.New(client, pods, m.Instrument(pods, nil))
	if err != nil {
		log.Fatal(err)
	}
	m.Watch(s)
	for ev, err := range m.Count(s.With(stream.Run{Until: stream.UntilSynced}).Events(context.Background())) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ev)
	}
	answer := httptest.NewRecorder()
	http.DefaultServeMux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	fmt.Println(answer.Code)
	// Output:
	// ADDED shop/web@2
	// SYNCED @2
	// 200
}

// Everything that a Mux follows is instrumented.
func ExampleMetrics_Instrument() {
	m := metrics.New()
	opts := follow.Options{
		Source: func(r gvr.Resource) (stream.Options, stream.Run) {
			return *m.Instrument(r, nil), stream.Run{}
		},
	}
	watched, _ := opts.Source(pods)
	fmt.Println(watched.Trace != nil)
	// Output: true
}
