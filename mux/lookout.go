package mux

import (
	"context"
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

// lookoutAgain is how long it takes until one is tried again that is not served or
// not allowed, at first and at most.
const lookoutAgain, lookoutAgainMost = 15 * time.Second, 2 * time.Minute

// lookout watches the names of a resource's objects, as long as ctx allows. changed
// is called for each change, and when it is known what there is (there is true) or
// no longer known; what it is told are the names.
type lookout struct {
	resource gvr.Resource
	client   dynamic.Interface
	options  stream.Options
	// changed is told the names, sorted, and nil when they are not known.
	changed func(names []string)

	works atomic.Bool // it is watching
}

func (l *lookout) run(ctx context.Context) {
	for again := lookoutAgain; ; again = min(2*again, lookoutAgainMost) {
		l.watch(ctx)
		if l.works.Swap(false) {
			again = lookoutAgain
		}
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// watch does so until it fails.
func (l *lookout) watch(ctx context.Context) {
	o := l.options
	o.MetadataOnly = true
	s, err := stream.New(l.client, l.resource, &o)
	if err != nil {
		return
	}
	names, synced := map[string]bool{}, false
	for ev, err := range s.Events(ctx) {
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
