package controller_test

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var doors = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"},
	Kind:                 "Door", Namespaced: true, Verbs: []string{"list", "watch"},
}

// A reconcile that fails is retried. With the checkpoint, another run would begin where this one has ended.
func Example() {
	srv := streamtest.NewServer(doors) // usually a cluster
	defer srv.Close()
	srv.Put(doors, "shop", "front")
	if err := reconcileAll(srv.Client()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// reconcile doors.example.com shop/front at 2: stuck
	// reconcile doors.example.com shop/front at 2: done
}

func reconcileAll(client dynamic.Interface) error {
	tracker, err := checkpoint.NewTracker(&checkpoint.Memory{}, &checkpoint.Options{ // usually file.Open
		Cluster: checkpoint.Cluster{UID: "example"}, // usually Connection.Cluster
	})
	if err != nil {
		return err
	}
	s, err := stream.New(client, doors, nil)
	if err != nil {
		return err
	}
	ctx, tries := context.Background(), 0
	reconcile := func(_ context.Context, k controller.Key, ev stream.Event) (controller.Result, error) {
		if tries++; tries == 1 {
			fmt.Printf("reconcile %s at %s: stuck\n", k, ev.ResourceVersion)
			return controller.Result{}, errors.New("stuck")
		}
		fmt.Printf("reconcile %s at %s: done\n", k, ev.ResourceVersion)
		return controller.Result{}, nil
	}
	events := s.With(stream.Run{Checkpoint: tracker, Until: stream.UntilSynced}).Events(ctx)
	err = controller.Run(ctx, events, reconcile, nil)
	return errors.Join(err, tracker.Close())
}
