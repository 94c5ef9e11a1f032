package stream_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// TestCompressedWatch: a server that compresses watches (WatchListCompression in Kubernetes 1.37) sends a gzip member
// for each flush. Each event is delivered when it arrives, not with the next one.
func TestCompressedWatch(t *testing.T) {
	for name, client := range map[string]func(*rest.Config) (dynamic.Interface, error){
		"NewClient":    func(cfg *rest.Config) (dynamic.Interface, error) { return stream.NewClient(cfg, nil) },
		"stock client": func(cfg *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(cfg) },
	} {
		t.Run(name, func(t *testing.T) {
			received := make(chan struct{})
			srv := compressing(received)
			defer srv.Close()
			c, err := client(&rest.Config{Host: srv.URL})
			noError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			n := 0
			for ev, err := range streamOf(t, c, widgets(),
				&setup{Options: stream.Options{Requests: stream.Requests{PagedLists: true}}}).Events(ctx) {
				if err != nil {
					t.Fatalf("%d of 4 events arrived: %v", n, err)
				}
				if ev.Type != stream.Added {
					continue
				}
				if n++; n == 4 {
					break
				}
				received <- struct{}{}
			}
		})
	}
}

// compressing returns a server that sends each of four events when the one before it was received.
func compressing(received <-chan struct{}) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprint(w, `{"kind":"WidgetList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"5"},`+
				`"items":[]}`)
			return
		}
		zip := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
		if zip {
			w.Header().Set("Content-Encoding", "gzip")
		}
		w.(http.Flusher).Flush()
		for i := 6; i < 10; i++ {
			event := fmt.Sprintf(`{"type":"ADDED","object":{"kind":"Widget","apiVersion":"example.com/v1","metadata":`+
				`{"name":"w%d","namespace":"ns","uid":"u%d","resourceVersion":"%d"}}}`+"\n", i, i, i)
			if zip {
				member := gzip.NewWriter(w)
				fmt.Fprint(member, event)
				_ = member.Flush() // as a kube-apiserver does: the event can be read before the next member begins
				_ = member.Close()
			} else {
				fmt.Fprint(w, event)
			}
			w.(http.Flusher).Flush()
			select {
			case <-received:
			case <-r.Context().Done():
				return
			}
		}
		<-r.Context().Done()
	}))
}
