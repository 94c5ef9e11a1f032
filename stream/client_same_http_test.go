package stream_test

import (
	"compress/gzip"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/decode/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// compressing serves a list and a watch, compressed for who asks for that. It
// breaks off the watch at the end if that is asked for.
type compressing struct {
	list, events []byte
	breakOff     bool
	mu           sync.Mutex
	encodings    []string // that were accepted
}

func (c *compressing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	accepted := r.Header.Get("Accept-Encoding")
	c.mu.Lock()
	c.encodings = append(c.encodings, accepted)
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var out io.Writer = w
	flush := http.NewResponseController(w).Flush
	if strings.Contains(accepted, "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		out, flush = z, func() error { z.Flush(); return http.NewResponseController(w).Flush() }
	}
	if !r.URL.Query().Has("watch") {
		out.Write(c.list)
		return
	}
	for _, frame := range (decodetest.Recorded{Data: c.events}).Frames() {
		out.Write(frame)
		flush()
	}
	if c.breakOff {
		panic(http.ErrAbortHandler)
	}
}

// TestSameOverHTTP compares over connections, of both versions, which compress, or
// break, or both.
func TestSameOverHTTP(t *testing.T) {
	c := &compressing{}
	for _, r := range decodetest.ReadRecorded(t, recordings) {
		switch r.Name {
		case "pods.list.json":
			c.list = r.Data
		case "pods.watch.ndjson":
			c.events = r.Data
		}
	}
	for _, test := range []struct {
		why                  string
		http2, off, compress bool
	}{
		{"HTTP/1", false, false, false}, {"HTTP/1, compressed", false, false, true}, {"HTTP/1, broken off", false, true, false}, {"HTTP/1, compressed and broken off", false, true, true},
		{"HTTP/2", true, false, false}, {"HTTP/2, compressed", true, false, true}, {"HTTP/2, broken off", true, true, false}, {"HTTP/2, compressed and broken off", true, true, true},
	} {
		t.Run(test.why, func(t *testing.T) {
			c.breakOff = test.off
			for _, workers := range []int{1, 2, 4} {
				o := &stream.ClientOptions{DecodeWorkers: workers, Compression: test.compress}
				wantList, wantEvents := c.read(t, test.http2, test.compress, variant{})
				gotList, gotEvents := c.read(t, test.http2, test.compress, variant{opts: o})
				if d := decodetest.DifferenceOfLists(wantList, gotList); d != "" {
					t.Error(d)
				}
				if d := differentEvents(stock, wantEvents, gotEvents); d != "" {
					t.Error(d)
				}
				if len(wantEvents) < 13 {
					t.Errorf("only %d events came", len(wantEvents))
				}
			}
		})
	}
}

// read reads everything over connections of its own.
func (c *compressing) read(t *testing.T, http2, compress bool, v variant) (*unstructured.UnstructuredList, []apiwatch.Event) {
	t.Helper()
	c.encodings = nil
	s := httptest.NewUnstartedServer(c)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = http2
	s.StartTLS()
	defer s.Close()
	cfg := &rest.Config{Host: s.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	if !http2 {
		cfg.NextProtos = []string{"http/1.1"}
	}
	client, err := stream.NewClient(cfg, v.opts)
	if v.opts == nil {
		cfg.DisableCompression = !compress
		client, err = dynamic.NewForConfig(cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.Resource(things).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := client.Resource(things).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	events := receiveAll(w)
	for _, encoding := range c.encodings {
		if strings.Contains(encoding, "gzip") != compress {
			t.Errorf("accepted: %q", encoding)
		}
	}
	return list, events
}
