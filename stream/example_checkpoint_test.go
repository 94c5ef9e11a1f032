package stream_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A restarted program receives the events that it has not acked yet, and the deletions since its last run.
func Example_checkpoint() {
	srv := streamtest.NewServer(widgets()) // usually a cluster
	srv.Put(widgets(), "default", "a")
	srv.Put(widgets(), "default", "b")
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	program := func() error {
		store, err := file.Open(filepath.Join(dir, "positions.db"))
		if err != nil {
			return err
		}
		defer store.Close()
		cluster, err := stream.ClusterOf(context.Background(), srv.Config())
		if err != nil {
			return err
		}
		tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: cluster})
		if err != nil {
			return err
		}
		s, err := stream.New(srv.Client(), widgets(), &stream.Options{Checkpoint: tracker, UntilSynced: true})
		if err != nil {
			return err
		}
		for ev, err := range stream.Acked(s.Events(context.Background())) {
			if err != nil {
				return err
			}
			fmt.Println(ev)
		}
		return tracker.Close()
	}
	if err := program(); err != nil {
		fmt.Println(err)
	}
	if _, err := srv.Delete(widgets(), "default", "a"); err != nil {
		fmt.Println(err)
	}
	srv.Compact("") // the deletion is no longer in the server's history
	fmt.Println("again")
	if err := program(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ADDED default/a@2
	// ADDED default/b@3
	// SYNCED @3
	// again
	// DELETED default/a@2 inferred
	// SYNCED @4
}
