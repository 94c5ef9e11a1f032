package store_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestReadersDuringWrites reads on many goroutines while the Store is written, for the race detector.
func TestReadersDuringWrites(t *testing.T) {
	const objects, writes = 30, 300
	srv := streamtest.NewServer(widgets())
	defer srv.Close()
	for i := range objects {
		srv.Put(widgets(), "n", fmt.Sprintf("w%02d", i), "spec.size=0")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newStore(t, newStream(t, srv, &stream.Options{Objects: stream.Raw}), &store.Options{
		Compress: true, Indexes: indexes{"size": bySpec("size")}})
	stop := start(ctx, s)
	if err := s.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	readers, over := sync.WaitGroup{}, make(chan struct{})
	var last string
	for i := range 6 {
		readers.Go(func() {
			if i == 0 {
				has := map[string]string{}
				for c, err := range s.Subscribe(ctx) {
					if err != nil {
						return
					}
					if c.Type == stream.Modified && has[c.New.Name()] != c.Old.ResourceVersion() {
						t.Errorf("Old of %s is %s, want %s", text(c.New), text(c.Old), has[c.New.Name()])
					}
					has[c.New.Name()] = c.New.ResourceVersion()
				}
				return
			}
			for {
				select {
				case <-over:
					return
				default:
				}
				readAll(t, s, objects)
			}
		})
	}
	for i := range writes {
		o := srv.Put(widgets(), "n", fmt.Sprintf("w%02d", i%objects), fmt.Sprint("spec.size=", i%7))
		last = o.GetResourceVersion()
	}
	if err := s.WaitFor(ctx, last); err != nil {
		t.Error(err)
	}
	close(over)
	cancel()
	readers.Wait()
	_ = stop()
}

// readAll reads a state through the tree of objects and through the index.
func readAll(t *testing.T, s *store.Store, objects int) {
	all, err := s.List(store.Query{})
	if err != nil {
		t.Error(err)
		return
	}
	n := 0
	for o := range all {
		u, err := o.Decode()
		if err != nil || u.GetResourceVersion() != o.ResourceVersion() {
			t.Errorf("got %v, %v", u, err)
		}
		n++
	}
	if n != objects {
		t.Errorf("a List has %d objects, want %d", n, objects)
	}
	some, err := s.List(store.Query{Index: "size", Value: "3"})
	if err != nil {
		t.Error(err)
		return
	}
	for o := range some {
		u, err := o.Decode()
		size, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "size")
		if err != nil || fmt.Sprint(size) != "3" {
			t.Errorf("the index has %v, %v under 3", u, err)
		}
	}
}
