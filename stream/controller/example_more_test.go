package controller_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/util/workqueue"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A controller of controller-runtime calls Start and WaitForSync, and reads the queue. See examples/manager.
func ExampleSource() {
	widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	srv := streamtest.NewServer(widgets)
	srv.Put(widgets, "lab", "a")
	s, err := stream.New(srv.Client(), widgets, &stream.Options{Objects: stream.Metadata})
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := controller.NewSource(s, func(ev stream.Event) []string {
		return []string{controller.KeyOf(ev).NamespacedName.String()} // KeyOf copies the strings
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	fmt.Println(source.Start(ctx, queue), source.WaitForSync(ctx))
	request, _ := queue.Get()
	fmt.Println(request)
	cancel()
	fmt.Println(source.Wait(context.Background()))
	// Output:
	// <nil> <nil>
	// lab/a
	// context canceled
}
