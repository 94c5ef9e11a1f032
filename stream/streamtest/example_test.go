package streamtest_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
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
