package file_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	store, err := file.Open(filepath.Join(dir, "checkpoints.db"))
	if err != nil {
		log.Fatal(err)
	}
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{
		Cluster: checkpoint.Cluster{UID: "1d5f..."}, // usually from stream.ClusterOf
	})
	if err != nil {
		log.Fatal(err)
	}
	// Give the tracker to Streams: stream.Options.Checkpoint.

	_, err = file.Open(filepath.Join(dir, "checkpoints.db"))
	fmt.Println("locked:", errors.As(err, new(*checkpoint.LockedError)))

	err = errors.Join(tracker.Flush(context.Background()), tracker.Close(), store.Close())
	fmt.Println(err)
	// Output:
	// locked: true
	// <nil>
}
