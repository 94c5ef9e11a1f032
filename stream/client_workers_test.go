package stream_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/stream"
)

// TestWorkersKeepTheOrder: they are as many as were asked for, and what they decode
// comes in the order of the server.
func TestWorkersKeepTheOrder(t *testing.T) {
	const workers = 8
	c, err := stream.NewClient(torrentConfig(), &stream.ClientOptions{DecodeWorkers: workers})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	w, err := c.Resource(things).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if n := runtime.NumGoroutine() - before; n < workers {
		t.Errorf("%d goroutines for %d workers", n, workers)
	}
	for n := range 20_000 {
		ev := <-w.ResultChan()
		if got, want := ev.Object.(*unstructured.Unstructured).GetResourceVersion(), strconv.Itoa(10_000_001+n); got != want {
			t.Fatalf("event %d is of version %s, want %s", n, got, want)
		}
	}
	w.Stop()
	receiveAll(w)
}

// TestUnwantedIsNotBuilt: with Options.Select an object that is not wanted costs
// little, also the first time.
func TestUnwantedIsNotBuilt(t *testing.T) {
	c, err := stream.NewClient(torrentConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		why                string
		events, most, seen int
	}{{"each of them new", 900, 80, 0}, {"most of them again", 9000, 8, 0}} {
		ctx, cancel := context.WithCancel(t.Context())
		s := newStream(t, c, &stream.Options{Select: func(stream.Meta) bool {
			if tt.seen++; tt.seen == tt.events {
				cancel()
			}
			return false
		}})
		n := mallocs(func() {
			for range s.Events(ctx) {
			}
		})
		cancel()
		if each := n / tt.events; each > tt.most {
			t.Errorf("%s: %d allocations for each, want at most %d", tt.why, each, tt.most)
		}
	}
}
