package mux_test

import (
	"context"
	"fmt"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Two Streams are one sequence until both are SYNCED.
func Example() {
	srv := streamtest.NewServer(widgets(), gadgets())
	srv.Put(widgets(), "lab", "a")
	var sources []mux.Source
	for _, r := range []gvr.Resource{widgets(), gadgets()} {
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
	for ev, err := range stream.Objects(m.Events(context.Background())) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev.Source, ev)
	}
	fmt.Println("all synced:", m.AllSynced())
	// Output:
	// widgets.example.com ADDED lab/a@2
	// all synced: true
}
