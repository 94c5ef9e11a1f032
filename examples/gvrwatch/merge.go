package main

import (
	"context"
	"iter"
	"sync"

	"github.com/gvrwatch/gvrwatch/stream"
)

// merge ranges over all sources at once and yields their events as they come,
// each source's in its order. The first error of any is yielded and ends all.
func merge(ctx context.Context, sources []*stream.Stream) iter.Seq2[stream.Event, error] {
	type told struct {
		ev  stream.Event
		err error
	}
	return func(yield func(stream.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		all := make(chan told)
		for _, s := range sources {
			running.Go(func() {
				for ev, err := range s.Events(ctx) {
					select {
					case all <- told{ev, err}:
					case <-ctx.Done():
						return
					}
				}
			})
		}
		for {
			select {
			case t := <-all:
				if !yield(t.ev, t.err) || t.err != nil {
					return
				}
			case <-ctx.Done():
				yield(stream.Event{}, context.Cause(ctx))
				return
			}
		}
	}
}
