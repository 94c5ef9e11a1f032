package mux

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/watchlist"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

const (
	// pollTriggered is how often the server's types are looked at while something
	// tells of their changes, pollAlone while nothing does. With aggregated discovery
	// a look at what has not changed costs an answer of 304 (discovery.NewClient).
	pollTriggered, pollAlone = 30 * time.Second, 1200 * time.Millisecond
)

// Triggers makes a Resolver look at what the server serves whenever a
// CustomResourceDefinition or an APIService changes, as far as the server has them
// and one may watch them. Follow does that by itself.
type Triggers struct{ definitions, services *lookout }

// NewTriggers returns Triggers of r that watch through c.
func NewTriggers(r *discovery.Resolver, c dynamic.Interface) *Triggers {
	watch := func(of gvr.Resource) *lookout {
		return &lookout{
			resource: of, client: c, options: stream.Options{Start: stream.Now()}, again: 15 * time.Second, most: 2 * time.Minute,
			changed: func([]string) { r.Kick() },
		}
	}
	return &Triggers{definitions: watch(definitions), services: watch(apiServices)}
}

// Run watches until ctx ends. On client-go's dynamic fake it does nothing.
func (t *Triggers) Run(ctx context.Context) {
	if watchlist.DoesClientNotSupportWatchListSemantics(t.definitions.client) {
		<-ctx.Done() // a fake of client-go's panics at what it was not told of
		return
	}
	var running sync.WaitGroup
	running.Go(func() { t.services.run(ctx) })
	t.definitions.run(ctx)
	running.Wait()
}

// Poll is how often one has to look besides, for discovery.ChangesOptions: every
// 30 s while CustomResourceDefinitions are watched, else every 1.2 s.
func (t *Triggers) Poll() time.Duration {
	if t.definitions.works.Load() {
		return pollTriggered
	}
	return pollAlone
}
