package stream_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var doors = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"},
	Kind:                 "Door", Namespaced: true, Verbs: []string{"list", "watch"},
}

// A loop over what exists and what happens, on a server that loses its history while a door is deleted.
func Example() {
	srv := streamtest.NewServer(doors) // usually a cluster
	defer srv.Close()
	srv.Put(doors, "shop", "front")
	srv.Put(doors, "shop", "back")
	if err := srv.Apply("change 4: 410 in stream"); err != nil {
		fmt.Println(err)
	}
	deleteFront := func() { _, _ = srv.Delete(doors, "shop", "front") } // change 4
	if err := printEvents(srv.Client(), deleteFront); err != nil {
		fmt.Println(err)
	}
	// Output:
	// exists: back
	// exists: front
	// everything that exists has been delivered
	// history was lost: only the differences follow
	// deleted: front
}

// printEvents returns when a door has been deleted. Usually client is from NewClient.
func printEvents(client dynamic.Interface, synced func()) error {
	s, err := stream.New(client, doors, &stream.Options{Namespaces: []string{"shop"}})
	if err != nil {
		return err
	}
	for ev, err := range s.Events(context.Background()) {
		if err != nil {
			return err
		}
		switch ev.Type {
		case stream.Added:
			fmt.Println("exists:", ev.Object.GetName())
		case stream.Modified:
			fmt.Println("changed:", ev.Object.GetName(), ev.Object.GetLabels())
		case stream.Deleted:
			fmt.Println("deleted:", ev.Object.GetName())
			return nil
		case stream.Gap:
			fmt.Println("history was lost: only the differences follow")
		case stream.Synced:
			fmt.Println("everything that exists has been delivered")
			synced()
		}
	}
	return nil
}
