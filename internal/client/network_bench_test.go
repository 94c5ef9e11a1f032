package client_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/client/decode/decodetest"
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
				c := variant{opts: &client.Options{DecodeWorkers: 1}}.clientFor(b, cfg).Resource(things)
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
