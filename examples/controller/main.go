// Command controller reconciles Deployments: it prints those that want more replicas than they have, and looks again.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
)

func main() {
	ctx := context.Background()
	c, err := gvrwatch.Connect(nil)
	if err != nil {
		log.Fatal(err)
	}
	s, err := c.Stream(ctx, "deploy", nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(controller.Run(ctx, s.Events(ctx), reconcile, &controller.Options{Workers: 4}))
}

// reconcile gets the newest event of each object. An error is retried.
func reconcile(_ context.Context, key controller.Key, ev stream.Event) (controller.Result, error) {
	if ev.Type == stream.Deleted {
		fmt.Println(key, "is gone")
		return controller.Result{}, nil
	}
	wanted, _, err := unstructured.NestedInt64(ev.Object.Object, "spec", "replicas")
	if err != nil {
		return controller.Result{}, err
	}
	ready, _, err := unstructured.NestedInt64(ev.Object.Object, "status", "readyReplicas")
	if err != nil {
		return controller.Result{}, err
	}
	if ready >= wanted {
		fmt.Println(key, "is ready")
		return controller.Result{}, nil
	}
	fmt.Printf("%s has %d of %d replicas\n", key, ready, wanted)
	return controller.Result{RequeueAfter: time.Minute}, nil
}
