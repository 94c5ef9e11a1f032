package follow_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// BenchmarkAttach measures the time from the start of a Mux until 1,000 followed types are synced, over HTTP/1 on
// loopback, with clients of a rest.Config without further settings.
func BenchmarkAttach(b *testing.B) {
	srv := streamtest.NewServer()
	defer srv.Close()
	for i := range 1000 {
		r := gvr.Resource{Kind: fmt.Sprint("Kind", i), Namespaced: true, Verbs: []string{"list", "watch"}}
		r.Group, r.Version, r.Resource = "example.com", "v1", fmt.Sprint("kinds", i)
		srv.Serve(r)
		srv.Put(r, "n", "a")
	}
	server := httptest.NewServer(srv)
	defer server.Close()
	cfg := &rest.Config{Host: server.URL}
	for b.Loop() {
		client, err := stream.NewClient(cfg, nil)
		if err != nil {
			b.Fatal(err)
		}
		served, err := discovery.NewClient(cfg)
		if err != nil {
			b.Fatal(err)
		}
		m, err := follow.New(discovery.NewResolver(served, 0), client,
			follow.Selection{Resources: []string{"*.example.com"}}, nil)
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		synced := 0
		for ev, err := range m.Events(ctx) {
			if err != nil {
				b.Fatal(err)
			}
			if ev.Type == stream.Synced {
				if synced++; synced == 1000 {
					break
				}
			}
		}
		cancel()
	}
}
