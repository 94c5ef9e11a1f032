package mux_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Two Streams are one sequence until both are SYNCED.
func Example() {
	doors, windows := custom("doors", "Door"), custom("windows", "Window")
	srv := streamtest.NewServer(doors, windows) // usually a cluster
	defer srv.Close()
	srv.Put(doors, "shop", "front")
	if err := printAll(srv.Client(), doors, windows); err != nil {
		fmt.Println(err)
	}
	// Output:
	// doors.example.com ADDED shop/front@2
	// all synced: true
}

func printAll(client dynamic.Interface, resources ...gvr.Resource) error {
	m, err := mux.New(nil)
	if err != nil {
		return err
	}
	for _, r := range resources {
		s, err := stream.New(client, r, nil)
		if err != nil {
			return err
		}
		if err := m.Add(s.With(stream.Run{Until: stream.UntilSynced}), nil); err != nil {
			return err
		}
	}
	for ev, err := range m.Events(context.Background()) {
		if err != nil {
			return err
		}
		if ev.HasObject() {
			fmt.Println(mux.SourceOf(ev), ev)
		}
	}
	fmt.Println("all synced:", m.Status().AllSynced)
	return nil
}

// custom returns a custom resource.
func custom(plural, kind string) gvr.Resource {
	return gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural},
		Kind:                 kind, Namespaced: true, Verbs: []string{"list", "watch"},
	}
}
