package stream_test

import (
	"bytes"
	"compress/gzip"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

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
