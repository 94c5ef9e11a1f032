package mux

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

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
	// again is how long it takes until it is tried again, where it is not served or
	// not allowed: at first, and at most.
	again, most time.Duration
	// changed is told the names, sorted, and nil when they are not known.
	changed func(names []string)

	works atomic.Bool // it is watching
}

func (l *lookout) run(ctx context.Context) {
	for again := l.again; ; again = min(2*again, l.most) {
		l.watch(ctx)
		if l.works.Swap(false) {
			again = l.again
		}
		timer := time.NewTimer(again/2 + rand.N(again/2)) // not all at the same time
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
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
			l.changed(sortedKeys(names))
		}
	}
}

func sortedKeys(m map[string]bool) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
