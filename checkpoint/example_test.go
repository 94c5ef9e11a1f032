package checkpoint_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The second run delivers what the first has not acked.
func Example() {
	widgets := gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Namespaced: true, Verbs: []string{"list", "watch"},
	}
	srv := streamtest.NewServer(widgets) // usually a cluster
	defer srv.Close()
	srv.Put(widgets, "default", "a")
	srv.Put(widgets, "default", "b")
	var store checkpoint.Memory // usually file.Open

	run := func(handle func(name string) bool) error {
		tracker, err := checkpoint.NewTracker(&store, &checkpoint.Options{
			Cluster: checkpoint.Cluster{UID: "example"}, // usually stream.ClusterOf
		})
		if err != nil {
			return err
		}
		s, err := stream.New(srv.Client(), widgets, &stream.Options{Checkpoint: tracker, UntilSynced: true})
		if err != nil {
			return err
		}
		for ev, err := range stream.Objects(s.Events(context.Background())) {
			if err != nil {
				return err
			}
			if handle(ev.NamespacedName().Name) {
				ev.Ack()
			}
		}
		return tracker.Close()
	}

	err := run(func(name string) bool { return name == "a" }) // b fails
	fmt.Println("first run:", err)
	err = run(func(name string) bool {
		fmt.Println("second run:", name)
		return true
	})
	fmt.Println("second run:", err)
	// Output:
	// first run: <nil>
	// second run: b
	// second run: <nil>
}
