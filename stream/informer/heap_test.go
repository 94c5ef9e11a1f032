package informer_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// existingPods is a server with so many Pods of 2.8 KB, and no changes.
type existingPods int

func (n existingPods) RoundTrip(r *http.Request) (*http.Response, error) {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: 200, Header: header, Body: &podFrames{ctx: r.Context(), n: int(n)}}, nil
}

// podFrames are the initial events of a watch that then is silent.
type podFrames struct {
	ctx  context.Context
	i, n int
	rest []byte
}

func (f *podFrames) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		switch {
		case f.i < f.n:
			f.rest = bytes.Replace(decodetest.PodEvent(f.i), []byte("MODIFIED"), []byte("ADDED"), 1)
		case f.i == f.n:
			f.rest = []byte(`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{` +
				`"resourceVersion":"10000000","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n")
		default:
			<-f.ctx.Done()
			return 0, io.EOF
		}
		f.i++
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *podFrames) Close() error { return nil }

// stripped keeps a few fields of an object, and nothing of its text.
func stripped(obj any) (any, error) {
	o := obj.(*unstructured.Unstructured)
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: strings.Clone(o.GetName()), Namespace: strings.Clone(o.GetNamespace()),
		ResourceVersion: strings.Clone(o.GetResourceVersion()),
	}}, nil
}

func used(name string) float64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return float64(s[0].Value.Uint64())
}

// BenchmarkFirstList measures the memory of the first list: what each object keeps, and the heap's peak.
func BenchmarkFirstList(b *testing.B) {
	const objects = 50_000
	pods := gvr.Resource{Kind: "Pod", Namespaced: true}
	pods.Version, pods.Resource = "v1", "pods"
	for _, bm := range []struct {
		name      string
		transform cache.TransformFunc
	}{{"whole", nil}, {"stripped", stripped}} {
		b.Run(bm.name, func(b *testing.B) {
			for b.Loop() {
				runtime.GC()
				runtime.GC()
				const live, heap = "/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes"
				before := used(live)
				c, err := stream.NewClient(&rest.Config{Host: "http://server", QPS: -1, Transport: existingPods(objects)}, nil)
				if err != nil {
					b.Fatal(err)
				}
				s, err := stream.New(c, pods, nil)
				if err != nil {
					b.Fatal(err)
				}
				i, err := informer.NewSharedIndexInformer(s, cache.SharedIndexInformerOptions{})
				if err != nil {
					b.Fatal(err)
				}
				if err := i.SetTransform(bm.transform); err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(b.Context())
				done := make(chan struct{})
				go func() { defer close(done); i.RunWithContext(ctx) }()
				peakLive, peakHeap := 0.0, 0.0
				for !i.HasSynced() {
					peakLive, peakHeap = max(peakLive, used(live)), max(peakHeap, used(heap))
					time.Sleep(time.Millisecond)
				}
				if n := len(i.GetStore().ListKeys()); n != objects {
					b.Fatalf("%d objects", n)
				}
				runtime.GC()
				runtime.GC()
				b.ReportMetric((used(live)-before)/objects, "B/object")
				b.ReportMetric((peakLive-before)/1e6, "peak-live-MB")
				b.ReportMetric((peakHeap-before)/1e6, "peak-heap-MB")
				cancel()
				<-done
			}
		})
	}
}
