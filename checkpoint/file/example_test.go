package file_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var doors = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"},
	Kind:                 "Door", Namespaced: true, Verbs: []string{"list", "watch"},
}

// A program that is started again receives the events that it has not acked yet, and the deletions since its last run.
func Example() {
	srv := streamtest.NewServer(doors) // usually a cluster
	defer srv.Close()
	srv.Put(doors, "shop", "front")
	srv.Put(doors, "shop", "back")
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	positions := filepath.Join(dir, "positions.db")

	if err := program(srv.Config(), positions); err != nil {
		fmt.Println(err)
	}
	if _, err := srv.Delete(doors, "shop", "front"); err != nil {
		fmt.Println(err)
	}
	srv.Compact("") // the deletion is no longer in the server's history
	fmt.Println("again")
	if err := program(srv.Config(), positions); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ADDED shop/back@3
	// ADDED shop/front@2
	// SYNCED @3
	// again
	// DELETED shop/front@2 inferred
	// SYNCED @4
}

func program(cfg *rest.Config, positions string) error {
	ctx := context.Background()
	store, err := file.Open(positions)
	if err != nil {
		return err
	}
	defer store.Close()
	c, err := gvrwatch.Connect(cfg)
	if err != nil {
		return err
	}
	tracker, err := c.Tracker(ctx, store, nil)
	if err != nil {
		return err
	}
	s, err := c.Stream(ctx, "doors", nil)
	if err != nil {
		return err
	}
	events := s.With(stream.Run{Checkpoint: tracker, Until: stream.UntilSynced}).Events(ctx)
	for ev, err := range stream.Acked(events) { // acks each event when the loop body is done with it
		if err != nil {
			return err
		}
		fmt.Println(ev)
	}
	return tracker.Close()
}
