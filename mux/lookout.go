package mux

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/watchlist"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// What is watched to learn what there is. Not every server has them, and not
// everybody may.
var (
	definitions = lookedOut("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
	apiServices = lookedOut("apiregistration.k8s.io", "apiservices", "APIService")
	namespaces  = lookedOut("", "namespaces", "Namespace")
)

func lookedOut(group, plural, kind string) gvr.Resource {
	return gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural},
		Kind:                 kind, Verbs: []string{"list", "watch"},
	}
}

// lookout watches the names of a resource's objects.
type lookout struct {
	resource gvr.Resource
	client   dynamic.Interface
	options  stream.Options
	again    time.Duration // until it is tried again, where it is not served or not allowed
	// changed is told the names, sorted, and nil when they are not known.
	changed func(names []string)

	works atomic.Bool // it is watching
}

func (l *lookout) run(ctx context.Context) {
	for again := true; again; again = pause(ctx, l.again/2+rand.N(l.again/2), nil) { // not all at the same time
		l.watch(ctx)
		l.works.Store(false)
	}
}

var errLost = errors.New("it can't be watched any more")

// watch does so until it fails, or may not be done any more.
func (l *lookout) watch(ctx context.Context) {
	over, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := l.options
	o.MetadataOnly = true
	o.Trace = &stream.Trace{StatusChanged: func(s stream.Status) {
		switch s.State {
		case stream.Unauthorized, stream.Forbidden, stream.Gone:
			cancel(errLost)
		}
	}}
	s, err := stream.New(l.client, l.resource, &o)
	if err != nil {
		return
	}
	names, synced := map[string]bool{}, false
	for ev, err := range s.Events(over) {
		if err != nil {
			if ctx.Err() == nil {
				l.changed(nil)
			}
			return
		}
		switch ev.Type {
		case stream.Added, stream.Modified:
			names[ev.Object.GetName()] = true
		case stream.Deleted:
			delete(names, ev.Object.GetName())
		case stream.Synced:
			synced = true
			l.works.Store(true)
		}
		if synced {
			l.changed(slices.Sorted(maps.Keys(names)))
		}
	}
}

const (
	// pollTriggered is how often the server's types are looked at while something
	// tells of their changes, pollAlone while nothing does. With aggregated discovery
	// a look at what has not changed costs an answer of 304 (discovery.NewClient).
	pollTriggered, pollAlone = 30 * time.Second, 1200 * time.Millisecond
)

// triggers makes a Resolver look at what the server serves whenever a
// CustomResourceDefinition or an APIService changes, as far as the server has them
// and one may watch them.
type triggers struct{ definitions, services *lookout }

func newTriggers(r *discovery.Resolver, c dynamic.Interface) *triggers {
	watch := func(of gvr.Resource) *lookout {
		return &lookout{
			resource: of, client: c, options: stream.Options{Start: stream.Now()}, again: 2 * time.Minute,
			changed: func([]string) { r.Refresh() },
		}
	}
	return &triggers{definitions: watch(definitions), services: watch(apiServices)}
}

// run watches until ctx ends. On client-go's dynamic fake it does nothing.
func (t *triggers) run(ctx context.Context) {
	if watchlist.DoesClientNotSupportWatchListSemantics(t.definitions.client) {
		return // a fake of client-go's panics at what it was not told of
	}
	var running sync.WaitGroup
	running.Go(func() { t.services.run(ctx) })
	t.definitions.run(ctx)
	running.Wait()
}

// poll is how often one has to look besides, for discovery.ChangesOptions.
func (t *triggers) poll() time.Duration {
	if t.definitions.works.Load() {
		return pollTriggered
	}
	return pollAlone
}
