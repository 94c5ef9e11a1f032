package store_test

import (
	"context"
	"fmt"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A subscriber receives each change with the object before and after.
func ExampleStore_Subscribe() {
	widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	srv.Put(widgets, "default", "door", "spec.open=false")

	s, err := stream.New(srv.Client(), widgets, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	things, err := store.New(s, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- things.Run(ctx) }()
	defer func() { cancel(); <-done }()
	for c, err := range things.Subscribe(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s %q -> %q\n", c.Type, c.Old.ResourceVersion(), c.New.ResourceVersion())
		switch c.Type {
		case stream.Synced:
			srv.Put(widgets, "default", "door", "spec.open=true")
		case stream.Modified:
			_, _ = srv.Delete(widgets, "default", "door")
		case stream.Deleted:
			return
		}
	}
	// Output:
	// ADDED "" -> "2"
	// SYNCED "" -> ""
	// MODIFIED "2" -> "3"
	// DELETED "3" -> ""
}
