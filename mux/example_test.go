package mux_test

import (
	"context"
	"fmt"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Two Streams as one sequence, until all that exists has been told.
func ExampleMux() {
	srv := streamtest.NewServer(robots, planets)
	srv.Put(robots, "lab", "r2")
	var sources []mux.Source
	for _, r := range []gvr.Resource{robots, planets} {
		s, err := stream.New(srv.Client(), r, &stream.Options{UntilSynced: true})
		if err != nil {
			fmt.Println(err)
			return
		}
		sources = append(sources, s)
	}
	m, err := mux.New(nil, sources...)
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range m.Events(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if ev.Object != nil {
			fmt.Println(ev.Source, ev.Type, ev.Object.GetName())
		}
	}
	fmt.Println(m.AllSynced())
	// Output:
	// robots.example.com ADDED r2
	// true
}
