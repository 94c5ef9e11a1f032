package store_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var doors = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"},
	Kind:                 "Door", Namespaced: true, Verbs: []string{"list", "watch"},
}

// door is a type of the program.
type door struct {
	Spec struct {
		Room string `json:"room"`
	} `json:"spec"`
}

// room is an index: the values under which an object can be found.
func room(ev stream.Event) []string {
	o, err := ev.Decode()
	if err != nil {
		return nil
	}
	name, _, _ := unstructured.NestedString(o.Object, "spec", "room")
	return []string{name}
}

// A Store with an index by a field of the spec. The program reads its own write.
func Example() {
	srv := streamtest.NewServer(doors) // usually a cluster
	defer srv.Close()
	srv.Put(doors, "house", "front", "spec.room=hall")
	srv.Put(doors, "house", "back", "spec.room=hall")

	s, err := stream.New(srv.Client(), doors, &stream.Options{Objects: stream.Raw})
	if err != nil {
		fmt.Println(err)
		return
	}
	kept, err := store.New(s, &store.Options{Indexes: map[string]func(stream.Event) []string{"room": room}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- kept.Run(ctx) }()
	defer func() { cancel(); <-done }()
	if err := kept.WaitSynced(ctx); err != nil {
		fmt.Println(err)
		return
	}

	moved := srv.Put(doors, "house", "back", "spec.room=kitchen")
	if err := kept.WaitFor(ctx, moved.GetResourceVersion()); err != nil {
		fmt.Println(err)
		return
	}
	found, err := kept.List(store.Query{Index: "room", Value: "kitchen"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for o := range found {
		d, err := store.As[door](o)
		fmt.Println(o.Name(), d.Spec.Room, err)
	}
	// Output:
	// back kitchen <nil>
}
