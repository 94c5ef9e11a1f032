package main

import (
	"context"
	"net/http/httptest"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
)

// BenchmarkStore measures the live heap of an object in a Store, with the Stream that fills it, and reads of an object.
func BenchmarkStore(b *testing.B) {
	const objects = 10_000
	for _, size := range []string{small, big} {
		for name, o := range map[string]*store.Options{"plain": nil, "compressed": {Compress: true}} {
			b.Run(size+"/"+name, func(b *testing.B) {
				srv := newServer()
				path := srv.add(scenario{Size: size, Objects: objects})
				web := httptest.NewServer(srv.handler())
				b.Cleanup(web.Close)
				before := heapInUse()
				st := storeOf(b, web.URL+path, o)
				memory := float64(heapInUse()-before) / objects
				b.Run("Memory", func(b *testing.B) {
					for range b.N {
						runtime.KeepAlive(st)
					}
					b.ReportMetric(memory, "B/object")
				})
				all, err := st.List(store.Query{})
				check(err)
				var some []store.Object
				for o := range all {
					if some = append(some, o); len(some) == 1000 {
						break
					}
				}
				b.Run("Decode", func(b *testing.B) {
					for i := range b.N {
						_, err := some[i%len(some)].Decode()
						check(err)
					}
				})
				b.Run("As", func(b *testing.B) {
					for i := range b.N {
						_, err := store.As[corev1.Pod](some[i%len(some)])
						check(err)
					}
				})
				b.Run("DeepCopy", func(b *testing.B) {
					u, err := some[0].Decode()
					check(err)
					for range b.N {
						u.DeepCopy()
					}
				})
			})
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// storeOf returns a synced Store.
func storeOf(b *testing.B, host string, o *store.Options) *store.Store {
	c, err := stream.NewClient(&rest.Config{Host: host, QPS: -1}, nil)
	check(err)
	pods := gvr.Resource{Kind: "Pod", Namespaced: true, Verbs: []string{"list", "watch"}}
	pods.Version, pods.Resource = "v1", "pods"
	s, err := stream.New(c, pods, &stream.Options{
		Objects: stream.Raw, Requests: stream.Requests{PagedLists: true},
	})
	check(err)
	st, err := store.New(s, o)
	check(err)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = st.Run(ctx)
	}()
	b.Cleanup(func() { cancel(); <-done })
	check(st.WaitSynced(ctx))
	return st
}
