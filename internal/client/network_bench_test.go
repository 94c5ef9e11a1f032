package client_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// BenchmarkWatchOverTLS receives a watch whose server sends one event after the other without a pause. A Read returns
// at most a TLS record of 16 KiB on HTTP/1, and what has arrived on HTTP/2. The server is in the same process.
func BenchmarkWatchOverTLS(b *testing.B) {
	const events = 2000
	for _, http2 := range []bool{false, true} {
		for name, flush := range map[string]int{"flush each": 1, "flush 100": 100} {
			b.Run(map[bool]string{false: "HTTP1/", true: "HTTP2/"}[http2]+name, func(b *testing.B) {
				s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					for i := range events {
						_, _ = w.Write(decodetest.PodEvent(i))
						if i%flush == 0 {
							_ = http.NewResponseController(w).Flush()
						}
					}
				}))
				s.EnableHTTP2 = http2
				s.StartTLS()
				defer s.Close()
				cfg := &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
				if !http2 {
					cfg.NextProtos = []string{"http/1.1"}
				}
				c := variant{opts: &client.Options{}}.clientFor(b, cfg).Resource(things)
				for b.Loop() {
					w, err := c.Watch(b.Context(), metav1.ListOptions{})
					if err != nil {
						b.Fatal(err)
					}
					if n := len(receiveAll(w)); n != events {
						b.Fatalf("%d events", n)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
			})
		}
	}
}

// BenchmarkList receives pages of 500 Pods, each of which arrives at once, in a program whose own heap has 64 MiB.
func BenchmarkList(b *testing.B) {
	heap := make([]byte, 64<<20)
	defer runtime.KeepAlive(heap)
	page := podList{500}.page(false)
	c := variant{opts: &client.Options{}}.client(b, transportFunc(func(*http.Request) (*http.Response, error) {
		return respond(http.StatusOK, io.NopCloser(bytes.NewReader(page)))
	}), nil).Resource(things)
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		if l, err := c.List(b.Context(), metav1.ListOptions{}); err != nil || len(l.Items) != 500 {
			b.Fatal(err)
		}
	}
}
