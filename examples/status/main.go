// Command status prints what happens to the Deployments of a cluster, and on each change of state how the watch is.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/stream"
)

func main() {
	ctx := context.Background()
	c, err := gvrwatch.Connect(nil)
	if err != nil {
		log.Fatal(err)
	}
	s, err := c.Stream(ctx, "deploy", &stream.Options{Trace: &stream.Trace{StatusChanged: show}})
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range s.Events(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(ev)
		if ev.Type == stream.Synced {
			fmt.Println("objects:", s.Status().Objects)
		}
	}
}

// show prints a state, such as Streaming or Backoff, with its cause and the time of the next try.
func show(st stream.Status) { fmt.Println("status:", st) }
