package controller_test

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/util/workqueue"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A reconcile that fails is retried. With the checkpoint, another run would begin where this one has ended.
func ExampleRun() {
	srv := streamtest.NewServer(widgets())
	srv.Put(widgets(), "lab", "a")
	tracker, err := checkpoint.NewTracker(&checkpoint.Memory{}, &checkpoint.Options{
		Cluster: checkpoint.Cluster{UID: "example"}, // usually stream.ClusterOf
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := stream.New(srv.Client(), widgets(), &stream.Options{Checkpoint: tracker, UntilSynced: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, failed := context.Background(), false
	err = controller.Run(ctx, s.Events(ctx), func(
		_ context.Context, k controller.Key, ev stream.Event,
	) (controller.Result, error) {
		if !failed {
			failed = true
			return controller.Result{}, errors.New("not now")
		}
		fmt.Println("reconciled", k, "at", ev.ResourceVersion)
		return controller.Result{}, nil
	}, nil)
	fmt.Println("end:", err, tracker.Close())
	// Output:
	// reconciled widgets.example.com lab/a at 2
	// end: <nil> <nil>
}

// A controller of controller-runtime calls Start and WaitForSync, and reads the queue. See examples/manager.
func ExampleSource() {
	srv := streamtest.NewServer(widgets())
	srv.Put(widgets(), "lab", "a")
	s, err := stream.New(srv.Client(), widgets(), &stream.Options{Objects: stream.Metadata})
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
