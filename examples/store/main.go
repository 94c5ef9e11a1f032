// Command store keeps the Deployments of a cluster in memory, and answers how many each namespace has.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	c, err := gvrwatch.Connect(nil)
	if err != nil {
		log.Fatal(err)
	}
	s, err := c.Stream(ctx, "deploy", &stream.Options{Objects: stream.Raw})
	if err != nil {
		log.Fatal(err)
	}
	deployments, err := store.New(s, nil)
	if err != nil {
		log.Fatal(err)
	}
	go func() { cancel(deployments.Run(ctx)) }() // then the loop below ends with its error
	if err := deployments.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	count := map[string]int{}
	all, err := deployments.List(store.Query{})
	if err != nil {
		log.Fatal(err)
	}
	for o := range all {
		count[o.Namespace()]++
	}
	fmt.Println(count)
	for change, err := range deployments.Subscribe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(change)
	}
}
