// Command watch prints what happens to the Deployments of a cluster.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/stream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for ev, err := range gvrwatch.Watch(ctx, nil, "deploy", nil) {
		switch {
		case ctx.Err() != nil:
			return // Ctrl-C
		case err != nil:
			log.Fatal(err)
		case ev.Type == stream.Gap:
			fmt.Println(ev, "- the differences follow")
		case ev.HasObject():
			fmt.Println(ev, ev.Object.GetLabels())
		default:
			fmt.Println(ev) // SYNCED: everything that exists has been printed
		}
	}
}
