// Command clusters prints what happens to the objects of all types of example.com in several clusters, those of the
// contexts of the kubeconfig that its arguments name: clusters production staging.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
)

func main() {
	if len(os.Args) == 1 {
		log.Fatal("usage: clusters CONTEXT...")
	}
	all, err := mux.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range os.Args[1:] {
		c, err := gvrwatch.ConnectTo(name)
		if err != nil {
			log.Fatal(err)
		}
		types := follow.Selection{Resources: []string{"*.example.com"}}
		if _, err := c.Follow(types, &follow.Options{Into: all, Prefix: name}); err != nil {
			log.Fatal(err)
		}
	}
	for ev, err := range all.Events(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(mux.PrefixOf(ev), ev.Resource.GroupResource(), ev) // "staging widgets.example.com ADDED shop/a@7"
	}
}
