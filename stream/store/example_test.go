package store_test

import (
	"context"
	"fmt"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// thing is a type of the program.
type thing struct {
	Spec struct {
		Room string `json:"room"`
	} `json:"spec"`
}

// A Store with an index by a field of the spec. The program reads its own write.
func Example() {
	srv := streamtest.NewServer(widgets()) // instead of a cluster
	defer srv.Close()
	srv.Put(widgets(), "default", "door", "spec.room=hall")
	srv.Put(widgets(), "default", "lamp", "spec.room=hall")

	s, err := stream.New(srv.Client(), widgets(), &stream.Options{Objects: stream.Raw})
	if err != nil {
		fmt.Println(err)
		return
	}
	things, err := store.New(s, &store.Options{Indexes: map[string]func(stream.Event) []string{
		"room": func(ev stream.Event) []string {
			o, err := ev.Decode()
			if err != nil {
				return nil
			}
			return []string{o.Object["spec"].(map[string]any)["room"].(string)}
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- things.Run(ctx) }()
	defer func() { cancel(); <-done }()
	if err := things.WaitSynced(ctx); err != nil {
		fmt.Println(err)
		return
	}

	moved := srv.Put(widgets(), "default", "lamp", "spec.room=attic")
	if err := things.WaitFor(ctx, moved.GetResourceVersion()); err != nil {
		fmt.Println(err)
		return
	}
	in, err := things.List(store.Query{Index: "room", Value: "attic"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for o := range in {
		thing, err := store.As[thing](o)
		fmt.Println(o.Name(), thing.Spec.Room, err)
	}
	// Output:
	// lamp attic <nil>
}

// A subscriber receives each change with the object before and after.
func ExampleStore_Subscribe() {
	srv := streamtest.NewServer(widgets())
	defer srv.Close()
	srv.Put(widgets(), "default", "door", "spec.open=false")

	s, err := stream.New(srv.Client(), widgets(), nil)
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
			srv.Put(widgets(), "default", "door", "spec.open=true")
		case stream.Modified:
			_, _ = srv.Delete(widgets(), "default", "door")
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
