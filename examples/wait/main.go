// Command wait waits up to a minute until the Deployment web in the namespace default is available.
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
	s, err := c.Stream(ctx, "deploy", nil)
	if err != nil {
		log.Fatal(err)
	}
	available, err := condition.Parse("condition=Available")
	if err != nil {
		log.Fatal(err)
	}
	if err := condition.Wait(ctx, s, available, condition.Target{Namespace: "default", Name: "web"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("web is available")
}
