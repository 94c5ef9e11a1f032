// Package loop has the parts of the loops that programs have around the list and the watch of client-go's dynamic
// client.
package loop

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
)

// Watched is a resource that a loop watches.
type Watched struct {
	dynamic.ResourceInterface
	GVR   schema.GroupVersionResource
	Judge *adapter.Judge
}

// Each calls run for each resource at the same time.
func Each(ctx context.Context, j *adapter.Judge, run func(context.Context, Watched)) error {
	client, err := dynamic.NewForConfig(j.Config)
	if err != nil {
		return err
	}
	return j.Each(ctx, func(ctx context.Context, r schema.GroupVersionResource) error {
		run(ctx, Watched{client.Resource(r), r, j})
		return nil
	})
}

// ListAndWatch lists each resource, prints the objects as ADDED, and prints what the watch that open opens at the
// version of the list brings. When that ends it begins again, after a second if the reason was an error.
func ListAndWatch(ctx context.Context, j *adapter.Judge, open func(Watched, string) (watch.Interface, error)) error {
	return Each(ctx, j, func(ctx context.Context, w Watched) {
		for first := true; ctx.Err() == nil; {
			list, err := w.ListAll(ctx)
			if err != nil {
				w.Failed(ctx, err)
				continue
			}
			for i := range list.Items {
				j.Object(watch.Added, w.GVR, &list.Items[i], false)
			}
			if first {
				j.Synced(w.GVR, list.GetResourceVersion())
				first = false
			}
			events, err := open(w, list.GetResourceVersion())
			if err != nil {
				w.Failed(ctx, err)
				continue
			}
			w.Print(ctx, events, nil)
			Pause(ctx, 100*time.Millisecond)
		}
	})
}

// ListAll lists all objects in pages.
func (w Watched) ListAll(ctx context.Context) (*unstructured.UnstructuredList, error) {
	all := &unstructured.UnstructuredList{}
	for o := (metav1.ListOptions{Limit: 500}); ; {
		list, err := w.List(ctx, o)
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, list.Items...)
		all.SetResourceVersion(list.GetResourceVersion())
		if o.Continue = list.GetContinue(); o.Continue == "" {
			return all, nil
		}
	}
}

// Print prints the events of a watch until that ends. seen, which may be nil, is called for each object.
func (w Watched) Print(
	ctx context.Context, events watch.Interface, seen func(watch.EventType, *unstructured.Unstructured),
) {
	defer events.Stop()
	for ev := range events.ResultChan() {
		o, ok := ev.Object.(*unstructured.Unstructured)
		switch {
		case ev.Type == watch.Error:
			w.failed(ctx, apierrors.FromObject(ev.Object))
			return
		case !ok, ev.Type == watch.Bookmark:
		default:
			w.Judge.Object(ev.Type, w.GVR, o, false)
			if seen != nil {
				seen(ev.Type, o)
			}
		}
	}
}

// Failed prints an error and waits for a second.
func (w Watched) Failed(ctx context.Context, err error) {
	w.failed(ctx, err)
	Pause(ctx, time.Second)
}

func (w Watched) failed(ctx context.Context, err error) {
	if ctx.Err() == nil {
		w.Judge.Error(err)
	}
}

// Pause waits for a while, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
