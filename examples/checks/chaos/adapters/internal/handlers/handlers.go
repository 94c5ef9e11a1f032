// Package handlers prints what the event handlers of informers receive. Informers have client-go's interface, whoever
// made them.
package handlers

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
)

// Informer is what a handler is added to.
type Informer interface {
	AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error)
}

// Add adds a handler to an informer, and returns a function that prints SYNCED once the handler has received everything
// that exists. The version of that is not known: the informer's is that of what it has read, not of what handlers have.
func Add(j *adapter.Judge, r schema.GroupVersionResource, i Informer) (synced func(context.Context), err error) {
	registration, err := i.AddEventHandler(handler{j.Lines, r})
	return func(ctx context.Context) {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			j.Synced(r, "")
		}
	}, err
}

// Print adds a handler to an informer of each resource, starts the informers, and returns when ctx ends.
func Print(
	ctx context.Context, j *adapter.Judge, informer func(schema.GroupVersionResource) cache.SharedIndexInformer,
) error {
	return j.Each(ctx, func(ctx context.Context, r schema.GroupVersionResource) error {
		i := informer(r)
		synced, err := Add(j, r, i)
		if err != nil {
			return err
		}
		var waiting sync.WaitGroup
		waiting.Go(func() { synced(ctx) })
		i.RunWithContext(ctx)
		waiting.Wait()
		return nil
	})
}

type handler struct {
	lines *adapter.Lines
	r     schema.GroupVersionResource
}

func (h handler) OnAdd(o any, _ bool) { h.lines.Object(watch.Added, h.r, o.(metav1.Object), false) }

func (h handler) OnUpdate(before, now any) {
	o := now.(metav1.Object)
	if before.(metav1.Object).GetResourceVersion() == o.GetResourceVersion() {
		return // listed again, and unchanged
	}
	h.lines.Object(watch.Modified, h.r, o, false)
}

func (h handler) OnDelete(o any) {
	unknown, inferred := o.(cache.DeletedFinalStateUnknown)
	if inferred {
		o = unknown.Obj
	}
	h.lines.Object(watch.Deleted, h.r, o.(metav1.Object), inferred)
}
