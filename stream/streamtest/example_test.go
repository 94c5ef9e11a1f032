package streamtest_test

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A plain watch loop as it is often written, and a test that finds out what it
// does about an expired version: it asks for the same one again.
func Example() {
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	srv.Put(widgets, "shop", "door", "spec.color=red")
	srv.Put(widgets, "shop", "door", "spec.color=blue")
	if err := srv.Apply("watch 2-*: 410 in stream # all but the first one"); err != nil {
		fmt.Println(err)
		return
	}

	rv := "1"
	for range 3 {
		if err := watchOnce(context.Background(), srv.Client(), widgets, &rv); err != nil {
			fmt.Println("error:", err)
		}
	}
	for _, q := range srv.Requests() {
		fmt.Println(q.Verb, q.Resource, "from", q.ResourceVersion)
	}
	// Output:
	// ADDED red
	// MODIFIED blue
	// error: too old resource version: 3
	// error: too old resource version: 3
	// watch widgets.v1.example.com from 1
	// watch widgets.v1.example.com from 3
	// watch widgets.v1.example.com from 3
}

// watchOnce prints what a watch tells, until it has told of a blue one.
func watchOnce(ctx context.Context, client dynamic.Interface, r gvr.Resource, rv *string) error {
	w, err := client.Resource(r.GroupVersionResource).Watch(ctx, metav1.ListOptions{ResourceVersion: *rv})
	if err != nil {
		return err
	}
	defer w.Stop()
	for ev := range w.ResultChan() {
		if ev.Type == watch.Error {
			return fmt.Errorf("%s", ev.Object.(*metav1.Status).Message)
		}
		o := ev.Object.(*unstructured.Unstructured)
		color, _, _ := unstructured.NestedString(o.Object, "spec", "color")
		fmt.Println(ev.Type, color)
		if *rv = o.GetResourceVersion(); color == "blue" {
			return nil
		}
	}
	return ctx.Err()
}

// What a program was told of a server that lost its history is held to what
// really happened.
func ExampleCheck() {
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	srv.Put(widgets, "shop", "door")
	srv.Put(widgets, "shop", "window")

	s, err := stream.New(srv.Client(), widgets, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	synced := 0
	rec := streamtest.Record(s.Events(context.Background()), func(ev stream.Event) bool {
		if ev.Type != stream.Synced {
			return false
		}
		if synced++; synced == 1 {
			// While nobody watches, an object goes and its deletion is forgotten.
			_ = srv.Do("forbid watch")
			_ = srv.Do("close watches")
			_, _ = srv.Delete(widgets, "shop", "door")
			srv.Compact("")
			_ = srv.Do("allow")
		}
		return synced == 2
	})
	for _, line := range streamtest.Texts(rec.Events) {
		fmt.Println(line)
	}
	fmt.Println(streamtest.Check(srv.History(widgets, nil), rec.Events, &streamtest.CheckOptions{Settled: true}))

	lost := slices.DeleteFunc(rec.Events, func(ev stream.Event) bool { return ev.Type == stream.Deleted })
	fmt.Println(streamtest.Check(srv.History(widgets, nil), lost, nil))
	// Output:
	// ADDED shop/door@2
	// ADDED shop/window@3
	// SYNCED @3
	// GAP expired 3..4
	// DELETED shop/door@2 inferred
	// SYNCED @4
	// <nil>
	// 4 SYNCED @4: not removed: door with uid "00000000-0000-4000-8000-000000000001" was gone, and that is missing
}
