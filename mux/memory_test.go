package mux_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/size"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The decoder of a client of NewClient counts the memory of what it decodes, so that the Mux need not.
func TestMemoryOfStreams(t *testing.T) {
	grow := func(o *unstructured.Unstructured) {
		o.Object["more"] = make([]any, 10_000)
	}
	tests := []struct {
		name, why string
		client    *stream.ClientOptions
		options   stream.Options
	}{
		{"decoded", "the decoder counts", &stream.ClientOptions{}, stream.Options{}},
		{"several namespaces", "their events come from other goroutines", &stream.ClientOptions{},
			stream.Options{Namespaces: []string{"default", "other"}}},
		{"selected", "after the metadata is scanned", &stream.ClientOptions{},
			stream.Options{Select: func(stream.Meta) bool { return true }}},
		{"transformed", "what Transform adds counts", &stream.ClientOptions{}, stream.Options{Transform: grow}},
		{"another client", "the Mux counts", nil, stream.Options{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(widgets())
				client := srv.Client()
				if tt.client != nil {
					var err error
					if client, err = stream.NewClient(srv.Config(), tt.client); err != nil {
						t.Fatal(err)
					}
				}
				s, err := stream.New(client, widgets(), &tt.options)
				if err != nil {
					t.Fatal(err)
				}
				m, counted := newMux(t, nil, s), int64(0)
				for ev, err := range m.Events(anHour(t)) {
					if err != nil {
						t.Fatal(err)
					}
					if ev.Type == stream.Synced {
						srv.Put(widgets(), "default", "a", "spec.text="+strings.Repeat("x", 2000), "spec.a.b.c=1")
						synctest.Wait()
						counted = m.Status().Bytes
						continue
					}
					want := size.Of(ev.Object.Object)
					if counted < want*9/10 || counted > want*13/10+300 {
						t.Errorf("%s: the object takes about %d bytes, and counts as %d", tt.why, want, counted)
					}
					break
				}
			})
		})
	}
}
