package client_test

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
)

// The results would be the same if client-go decoded everything. These tests check the costs.

func mallocs(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.Mallocs - before.Mallocs)
}

// podList is a transport that answers each list with pods, and each watch with their events.
type podList struct{ pods int }

func (l podList) RoundTrip(r *http.Request) (*http.Response, error) {
	return respond(200, io.NopCloser(bytes.NewReader(l.page(r.URL.Query().Has("watch")))))
}

func (l podList) page(watch bool) []byte {
	var b bytes.Buffer
	if !watch {
		b.WriteString(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`)
	}
	for i := range l.pods {
		f := decodetest.PodEvent(i)
		if !watch {
			f = bytes.TrimSuffix(bytes.TrimPrefix(f, []byte(`{"type":"MODIFIED","object":`)), []byte("}\n"))
			if i > 0 {
				b.WriteByte(',')
			}
		}
		b.Write(f)
	}
	if !watch {
		b.WriteString(`]}`)
	}
	return b.Bytes()
}

// A list or a watch needs at most half of client-go's allocations.
func TestOwnDecoderIsUsed(t *testing.T) {
	const pods = 500
	list := func(c dynamic.Interface) {
		if l, err := c.Resource(things).List(t.Context(), metav1.ListOptions{}); err != nil || len(l.Items) != pods {
			t.Fatal(err)
		}
	}
	watch := func(c dynamic.Interface) {
		w, err := c.Resource(things).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if events := receiveAll(w); len(events) != pods {
			t.Fatalf("%d events", len(events))
		}
	}
	for _, v := range variants() {
		for why, f := range map[string]func(dynamic.Interface){"a list": list, "a watch": watch} {
			theirs, ours := stock.client(t, podList{pods}, nil), v.client(t, podList{pods}, nil)
			f(theirs)
			f(ours)
			if theirs, ours := mallocs(func() { f(theirs) }), mallocs(func() { f(ours) }); ours > theirs/2 {
				t.Errorf("%s of %d (%s): %d allocations, client-go has %d", why, pods, v.name, ours, theirs)
			}
		}
	}
}

// The buffers became large in a burst of events.
func TestSilentWatchReleasesItsBuffers(t *testing.T) {
	const watches = 20
	var burst []byte
	for i := range 200 {
		burst = append(burst, decodetest.PodEvent(i)...)
	}
	chunks := append([][]byte{burst}, decodetest.PodEvent(0), decodetest.PodEvent(1))
	synctest.Test(t, func(t *testing.T) {
		before := live()
		var all []apiwatch.Interface
		s := &server{served: served{chunks: chunks}}
		c := variants()[0].client(t, s, nil)
		for range watches {
			gate := make(chan struct{}, len(chunks))
			s.gate = gate
			w, err := c.Resource(things).Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, w)
			gate <- struct{}{}
			for range 200 {
				<-w.ResultChan()
			}
			for range 2 { // single events after the burst
				gate <- struct{}{}
				<-w.ResultChan()
			}
			synctest.Wait()
		}
		if each := (int(live()) - int(before)) / watches; each > 100<<10 {
			t.Errorf("a silent watch keeps %d bytes, want at most 100 KiB", each)
		}
		for _, w := range all {
			w.Stop()
			receiveAll(w)
		}
	})
}

// Objects of small maps take 50 times as much memory as their JSON, so only one is decoded before it is received.
func TestOneEventIsDecodedAhead(t *testing.T) {
	dense := `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Thing","x":[` + many(50_000, `{"":{}},`) + "0]}}\n"
	const each, events = 20 << 20, 12 // bytes of memory
	synctest.Test(t, func(t *testing.T) {
		transport := &server{served: served{chunks: chunksOf(slices.Repeat([]string{dense}, events)...)}}
		before := live()
		w, err := variants()[0].client(t, transport, nil).Resource(things).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		<-w.ResultChan()
		synctest.Wait()
		if used := int(live()) - int(before); used > each*3/2 {
			t.Errorf("%d MiB are decoded ahead, want at most %d", used>>20, (each*3/2)>>20)
		}
		w.Stop()
		receiveAll(w)
	})
}

func live() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
