package checkpoint_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var doors = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"},
	Kind:                 "Door", Namespaced: true, Verbs: []string{"list", "watch"},
}

// The second run delivers what the first has not acked.
func Example() {
	srv := streamtest.NewServer(doors) // usually a cluster
	defer srv.Close()
	srv.Put(doors, "shop", "front")
	srv.Put(doors, "shop", "back")
	var store checkpoint.Memory // usually file.Open

	fmt.Println("first run")
	err := runOnce(srv.Client(), &store, func(name string) bool { return name == "front" }) // back fails
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println("second run")
	if err := runOnce(srv.Client(), &store, func(string) bool { return true }); err != nil {
		fmt.Println(err)
	}
	// Output:
	// first run
	// back handled: false
	// front handled: true
	// second run
	// back handled: true
}

func runOnce(client dynamic.Interface, store checkpoint.Store, handle func(name string) bool) error {
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{
		Cluster: checkpoint.Cluster{UID: "example"}, // usually Connection.Cluster
	})
	if err != nil {
		return err
	}
	s, err := stream.New(client, doors, nil)
	if err != nil {
		return err
	}
	run := stream.Run{Checkpoint: tracker, Until: stream.UntilSynced}
	for ev, err := range s.With(run).Events(context.Background()) {
		if err != nil {
			return err
		}
		if !ev.HasObject() {
			ev.Ack() // SYNCED, or a GAP
			continue
		}
		name := ev.NamespacedName().Name
		done := handle(name)
		fmt.Printf("%s handled: %v\n", name, done)
		if done {
			ev.Ack()
		}
	}
	return tracker.Close()
}
