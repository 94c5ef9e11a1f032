package stream_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/stream"
)

// TestCompressedUnasked: a server, or a proxy, that compresses though it was asked
// not to is understood; and a watch is there before its first event.
func TestCompressedUnasked(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(added + "\n"))
	_ = z.Close()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{}, 2)
		s := &server{served: served{header: map[string]string{"Content-Encoding": "gzip"}, chunks: [][]byte{b.Bytes()}, gate: gate}}
		opened := false
		go func() {
			synctest.Wait()
			if !opened {
				t.Error("the watch waits for its first event")
			}
			gate <- struct{}{}
			gate <- struct{}{}
		}()
		w, err := variant{opts: &stream.ClientOptions{}}.client(t, s, nil).Resource(things).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		opened = true
		if events := receiveAll(w); len(events) != 1 || events[0].Type != apiwatch.Added {
			t.Errorf("got %v", events)
		}
	})
}

// TestCompression: what the options say counts, and not what the config does.
func TestCompression(t *testing.T) {
	accepted := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepted <- r.Header.Get("Accept-Encoding")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(listOf(0, thing)))
	}))
	defer s.Close()
	for compression, want := range map[bool]string{false: "identity", true: "gzip"} {
		for _, disabled := range []bool{false, true} {
			c, err := stream.NewClient(&rest.Config{Host: s.URL, DisableCompression: disabled}, &stream.ClientOptions{Compression: compression})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Resource(things).List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := <-accepted; got != want {
				t.Errorf("Compression %v, DisableCompression %v: accepts %q, want %q", compression, disabled, got, want)
			}
		}
	}
}

// TestClientOptionsAreCopied: what becomes of them later changes nothing.
func TestClientOptionsAreCopied(t *testing.T) {
	o := &stream.ClientOptions{Drop: [][]string{{"status"}}}
	c := variant{opts: o}.client(t, &server{served: served{chunks: chunksOf(added + "\n")}}, nil)
	o.Drop[0][0] = "spec"
	w, err := c.Resource(things).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := variant{name: "dropping status", drop: [][]string{{"status"}}}
	sw, err := stock.client(t, &server{served: served{chunks: chunksOf(added + "\n")}}, nil).Resource(things).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := differentEvents(v, receiveAll(sw), receiveAll(w)); d != "" {
		t.Error(d)
	}
}
