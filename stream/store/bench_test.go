package store_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
)

// podServer serves a list of this many pods, 2.7 KB each, and silent watches.
type podServer int

func podJSON(i int) []byte {
	_, o, _ := bytes.Cut(decodetest.PodEvent(i), []byte(`"object":`))
	return bytes.TrimSuffix(o, []byte("}\n"))
}

func (s podServer) RoundTrip(r *http.Request) (*http.Response, error) {
	q := r.URL.Query()
	reader, writer := io.Pipe()
	answer := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: reader}
	if q.Get("sendInitialEvents") != "" {
		return nil, fmt.Errorf("unexpected request: %s", r.URL)
	}
	if q.Get("watch") != "" {
		context.AfterFunc(r.Context(), func() { _ = writer.CloseWithError(context.Cause(r.Context())) })
		return answer, nil
	}
	first, _ := strconv.Atoi(q.Get("continue"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	if limit == 0 {
		limit = int(s)
	}
	end, next := min(first+limit, int(s)), ""
	if end < int(s) {
		next = strconv.Itoa(end)
	}
	go func() {
		list := fmt.Appendf(nil, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10000000",`+
			`"continue":%q},"items":[`, next)
		for i := first; i < end; i++ {
			list = append(append(list, podJSON(i)...), ',')
		}
		_, err := writer.Write(append(bytes.TrimSuffix(list, []byte(",")), "]}"...))
		_ = writer.CloseWithError(err)
	}()
	return answer, nil
}

func (s podServer) config() *rest.Config {
	return &rest.Config{Host: "http://server.test", QPS: -1, Transport: s}
}

var pods = func() gvr.Resource {
	r := gvr.Resource{Kind: "Pod", Namespaced: true, Verbs: []string{"list", "watch"}}
	r.Version, r.Resource = "v1", "pods"
	return r
}()

// podStore returns a synced Store of a podServer.
func podStore(b *testing.B, n int, o *store.Options) *store.Store {
	b.Helper()
	c, err := stream.NewClient(podServer(n).config(), nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := stream.New(c, pods, &stream.Options{Objects: stream.Raw, Requests: stream.Requests{PagedLists: true}})
	if err != nil {
		b.Fatal(err)
	}
	st, err := store.New(s, o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = st.Run(ctx)
	}()
	b.Cleanup(func() { cancel(); <-done })
	if err := st.WaitSynced(ctx); err != nil {
		b.Fatal(err)
	}
	return st
}

// byNode finds the pods of 40 nodes by what is not metadata.
var byNode = indexes{"node": func(ev stream.Event) []string {
	o, err := ev.Decode()
	if err != nil {
		return nil
	}
	node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	return []string{node}
}}

func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkMemory measures the live heap of an object, with all that watches it, and the time until it is there.
func BenchmarkMemory(b *testing.B) {
	const n = 10_000
	for _, bm := range []struct {
		name  string
		start func(*testing.B) any
	}{
		{"informer", podInformer(n)},
		{"store", func(b *testing.B) any { return podStore(b, n, nil) }},
		{"store-indexed", func(b *testing.B) any { return podStore(b, n, &store.Options{Indexes: byNode}) }},
		{"store-compressed", func(b *testing.B) any { return podStore(b, n, &store.Options{Compress: true}) }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			var perObject float64
			for range b.N {
				before := live()
				s := bm.start(b)
				perObject = float64(live()-before) / n
				runtime.KeepAlive(s)
			}
			b.ReportMetric(perObject, "B/object")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/object")
		})
	}
}

func podInformer(n int) func(*testing.B) any {
	return func(b *testing.B) any {
		c, err := dynamic.NewForConfig(podServer(n).config())
		if err != nil {
			b.Fatal(err)
		}
		factory := dynamicinformer.NewDynamicSharedInformerFactory(c, 0)
		informer := factory.ForResource(pods.GroupVersionResource).Informer()
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			informer.RunWithContext(ctx)
		}()
		b.Cleanup(func() { cancel(); <-done })
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			b.Fatal("not synced")
		}
		return informer
	}
}

// BenchmarkRead measures reads of a Store of 100,000 pods, and what an informer's user does instead.
func BenchmarkRead(b *testing.B) {
	const n = 100_000
	type name struct{ namespace, name string }
	var names []name
	for i := range n {
		var o unstructured.Unstructured
		if i < 1000 {
			if err := o.UnmarshalJSON(podJSON(i * 97 % n)); err != nil {
				b.Fatal(err)
			}
			names = append(names, name{o.GetNamespace(), o.GetName()})
		}
	}
	plain := podStore(b, n, &store.Options{Indexes: byNode})
	compressed := podStore(b, n, &store.Options{Compress: true})
	read := func(s *store.Store, f func(store.Object) error) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				k := names[i%len(names)]
				o, ok := s.Get(k.namespace, k.name)
				if !ok {
					b.Fatal("there is no ", k)
				}
				if err := f(o); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	decoded := func(o store.Object) error { _, err := o.Decode(); return err }
	typed := func(o store.Object) error { _, err := store.As[corev1.Pod](o); return err }
	converted := func(o store.Object) error {
		u, err := o.Decode()
		if err != nil {
			return err
		}
		var p corev1.Pod
		return kruntime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &p)
	}
	metadata := func(o store.Object) error { o.Meta().GetLabels(); return nil }
	b.Run("Get", read(plain, func(store.Object) error { return nil }))
	b.Run("Get-labels", read(plain, metadata))
	b.Run("Get-JSON", read(plain, func(o store.Object) error { _, err := o.JSON(); return err }))
	b.Run("Get-Decode", read(plain, decoded))
	b.Run("Get-As", read(plain, typed))
	b.Run("Get-Decode-FromUnstructured", read(plain, converted))
	b.Run("compressed/Get-JSON", read(compressed, func(o store.Object) error { _, err := o.JSON(); return err }))
	b.Run("compressed/Get-Decode", read(compressed, decoded))
	b.Run("compressed/Get-As", read(compressed, typed))
	b.Run("informer/DeepCopy", func(b *testing.B) {
		b.ReportAllocs()
		var o unstructured.Unstructured
		if err := o.UnmarshalJSON(podJSON(0)); err != nil {
			b.Fatal(err)
		}
		for range b.N {
			o.DeepCopy()
		}
	})
	list := func(q store.Query) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			found := 0
			for range b.N {
				found = 0
				objects, err := plain.List(q)
				if err != nil {
					b.Fatal(err)
				}
				for range objects {
					found++
				}
			}
			b.ReportMetric(float64(found), "objects")
		}
	}
	b.Run("List-all", list(store.Query{}))
	front, err := labels.Parse("tier=front")
	if err != nil {
		b.Fatal(err)
	}
	b.Run("List-labels", list(store.Query{Labels: front, Namespace: "shop-3"}))
	b.Run("List-index", list(store.Query{Index: "node", Value: "node-7"}))
	b.Run("List-index-namespace", list(store.Query{Index: "node", Value: "node-7", Namespace: "shop-3"}))
}
