// Command checkpoint prints what happens to the Deployments of a cluster. Started again, it goes on where it ended.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/stream"
)

func main() {
	ctx := context.Background()
	c := must(gvrwatch.Connect(nil))
	tracker := must(c.Tracker(ctx, must(file.Open("positions.db")), nil))
	s := must(c.Stream(ctx, "deploy", nil))
	for ev, err := range stream.Acked(s.With(stream.Run{Checkpoint: tracker}).Events(ctx)) {
		fmt.Println(must(ev, err)) // acked when the loop body is done with it
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
