// Command follow prints what happens to the objects of all types of example.com, as types come and go.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
)

func main() {
	c, err := gvrwatch.Connect(nil)
	if err != nil {
		log.Fatal(err)
	}
	m, err := c.Follow(follow.Selection{Resources: []string{"*.example.com"}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for ev, err := range m.Events(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(mux.SourceOf(ev), ev) // "widgets.example.com ADDED default/blue@7"
	}
}
