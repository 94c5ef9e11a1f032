package factory_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// podServer has no pods at first, and then sends changes of 1,000 pods in turn, 2.8 KB each, as fast as they are read.
type podServer struct{}

func (podServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(body io.Reader) (*http.Response, error) {
		header := http.Header{"Content-Type": {"application/json"}}
		return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(body)}, nil
	}
	switch q := r.URL.Query(); {
	case q.Get("watch") == "":
		list := `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10000000"},"items":[]}`
		return answer(strings.NewReader(list))
	case q.Get("sendInitialEvents") == "true":
		marker := `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{` +
			`"resourceVersion":"10000000","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
		return answer(io.MultiReader(strings.NewReader(marker), newPodEvents()))
	}
	return answer(newPodEvents())
}

// podEvents is the body of an endless watch.
type podEvents struct {
	frames [][]byte
	at     []int // the offset of the resourceVersion in each frame
	rv     int
	rest   []byte // of the current frame
}

func newPodEvents() *podEvents {
	e := &podEvents{rv: 10_000_000}
	for _, f := range podFrames() {
		e.frames, e.at = append(e.frames, bytes.Clone(f)), append(e.at, bytes.Index(f, []byte("10000000")))
	}
	return e
}

var podFrames = sync.OnceValue(func() (frames [][]byte) {
	for i := range 1000 {
		frames = append(frames, decodetest.PodEvent(i))
	}
	return frames
})

func (e *podEvents) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(e.rest) == 0 {
			i := e.rv % len(e.frames)
			e.rv++
			strconv.AppendInt(e.frames[i][:e.at[i]], int64(e.rv), 10)
			e.rest = e.frames[i]
		}
		m := copy(p[n:], e.rest)
		e.rest = e.rest[m:]
		n += m
	}
	return n, nil
}

// BenchmarkInformer measures one event, from the server's frame to a handler.
func BenchmarkInformer(b *testing.B) {
	podFrames()
	config := &rest.Config{Host: "http://server", QPS: -1, Transport: podServer{}}
	for _, bm := range []struct {
		name   string
		client *stream.ClientOptions // nil for client-go's informer and client
	}{
		{"client-go", nil},
		{"ours", &stream.ClientOptions{}},
		{"ours-nomanaged", &stream.ClientOptions{DropManagedFields: true}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			var f dynamicinformer.DynamicSharedInformerFactory
			if bm.client == nil {
				f = dynamicinformer.NewDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(config), 0)
			} else {
				c, err := stream.NewClient(config, bm.client)
				if err != nil {
					b.Fatal(err)
				}
				if f, err = factory.New(c, 0, nil); err != nil {
					b.Fatal(err)
				}
			}
			seen, done := 0, make(chan struct{})
			count := func() {
				if seen++; seen == b.N {
					close(done)
				}
			}
			_, err := f.ForResource(pods).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(any) { count() }, UpdateFunc: func(_, _ any) { count() },
			})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			b.ResetTimer()
			f.Start(ctx.Done())
			<-done
			b.StopTimer()
			cancel()
			f.Shutdown()
		})
	}
}
