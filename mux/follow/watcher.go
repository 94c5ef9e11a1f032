package follow

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// What is watched to notice changes. A server may lack these resources, and the user may not be allowed to watch them.
var (
	definitions = watchable("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition")
	apiServices = watchable("apiregistration.k8s.io", "apiservices", "APIService")
	namespaces  = watchable("", "namespaces", "Namespace")
)

func watchable(group, plural, kind string) gvr.Resource {
	return gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural},
		Kind:                 kind, Verbs: []string{"list", "watch"},
	}
}

// nameWatcher watches the names of the objects of a resource.
type nameWatcher struct {
	resource gvr.Resource
	client   dynamic.Interface
	run      stream.Run
	retry    time.Duration        // the wait before another try, if the resource is not served or may not be watched
	changed  func(names []string) // receives the names, sorted, or nil when they are not known
	state    func(stream.Status)  // receives each new state; nil for nobody

	watching atomic.Bool // it is watching
}

// loop watches until ctx ends.
func (w *nameWatcher) loop(ctx context.Context) {
	for more := true; more; more = wait.Sleep(ctx, wait.Between(w.retry/2, w.retry), nil) {
		w.watch(ctx)
		w.watching.Store(false)
	}
}

// watch watches until that fails or is forbidden.
func (w *nameWatcher) watch(ctx context.Context) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := stream.Options{Objects: stream.Metadata, Trace: &stream.Trace{StatusChanged: func(s stream.Status) {
		if w.state != nil {
			w.state(s)
		}
		switch s.State {
		case stream.Unauthorized, stream.Forbidden, stream.Gone:
			cancel(errors.New("the resource can't be watched any more"))
		}
	}}}
	s, err := stream.New(w.client, w.resource, &o)
	if err != nil {
		return
	}
	names, synced := map[string]bool{}, false
	for ev, err := range s.With(w.run).Events(inner) {
		if err != nil {
			if ctx.Err() == nil {
				w.changed(nil)
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
			w.watching.Store(true)
		}
		if synced {
			all := slices.AppendSeq([]string{}, maps.Keys(names)) // not nil, also if there are none
			slices.Sort(all)
			w.changed(all)
		}
	}
}

// Discovery polls at intervals of pollWhileWatching while the typeWatcher watches CRDs, else of pollWithoutWatch. With
// aggregated discovery a poll without changes costs one 304 answer (discovery.NewClient).
const pollWhileWatching, pollWithoutWatch = 30 * time.Second, 1200 * time.Millisecond

// typeWatcher makes a Resolver refresh whenever a CustomResourceDefinition or an APIService changes, if the server
// has them and they may be watched.
type typeWatcher struct{ definitions, services *nameWatcher }

func newTypeWatcher(r *discovery.Resolver, c dynamic.Interface) *typeWatcher {
	watch := func(of gvr.Resource) *nameWatcher {
		return &nameWatcher{
			resource: of, client: c, run: stream.Run{Start: stream.Now()}, retry: 2 * time.Minute,
			changed: func([]string) { r.Refresh() },
		}
	}
	return &typeWatcher{definitions: watch(definitions), services: watch(apiServices)}
}

// run watches until ctx ends. It does nothing on client-go's dynamic fake, which panics for unregistered resources.
func (t *typeWatcher) run(ctx context.Context) {
	if client.IsFake(t.definitions.client) {
		return
	}
	var running sync.WaitGroup
	running.Go(func() { t.services.loop(ctx) })
	t.definitions.loop(ctx)
	running.Wait()
}

// pollInterval is the interval between polls of discovery.
func (t *typeWatcher) pollInterval() time.Duration {
	if t.definitions.watching.Load() {
		return pollWhileWatching
	}
	return pollWithoutWatch
}
