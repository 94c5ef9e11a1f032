// Command wait waits up to a minute until the Deployment web is available and the Job seed is complete, both in the
// namespace default. If they are not by then, it prints what is missing.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/stream/condition"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := gvrwatch.Connect(nil)
	if err != nil {
		log.Fatal(err)
	}
	available, complete := condition.MustParse("condition=Available"), condition.MustParse("condition=Complete")
	err = c.Wait(ctx,
		condition.Target{For: available, Resource: "deploy", Namespace: "default", Name: "web"},
		condition.Target{For: complete, Resource: "job", Namespace: "default", Name: "seed"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("web is available and seed is complete")
}
