// Command list-diff-watch-loop keeps the last state of each object. When the watch ends it lists, prints the
// differences, and watches again.
package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/loop"
)

func main() {
	adapter.Main(adapter.Client{Name: "list-diff-watch loop", Module: "k8s.io/client-go"}, run)
}

func run(ctx context.Context, j *adapter.Judge) error { return loop.Each(ctx, j, watchOne) }

func watchOne(ctx context.Context, w loop.Watched) {
	known := map[types.UID]*unstructured.Unstructured{}
	for first := true; ctx.Err() == nil; {
		list, err := w.ListAll(ctx)
		if err != nil {
			w.Failed(ctx, err)
			continue
		}
		printDifferences(w, known, list)
		if first {
			w.Judge.Synced(w.GVR, list.GetResourceVersion())
			first = false
		}
		events, err := w.Watch(ctx, metav1.ListOptions{
			ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true,
		})
		if err != nil {
			w.Failed(ctx, err)
			continue
		}
		w.Print(ctx, events, func(what watch.EventType, o *unstructured.Unstructured) {
			if known[o.GetUID()] = o; what == watch.Deleted {
				delete(known, o.GetUID())
			}
		})
		loop.Pause(ctx, time.Second)
	}
}

// printDifferences prints how a list differs from what is known, and makes it known.
func printDifferences(
	w loop.Watched, known map[types.UID]*unstructured.Unstructured, list *unstructured.UnstructuredList,
) {
	exists := map[types.UID]bool{}
	for _, o := range list.Items {
		exists[o.GetUID()] = true
	}
	for uid, o := range known {
		if !exists[uid] {
			w.Judge.Object(watch.Deleted, w.GVR, o, true)
			delete(known, uid)
		}
	}
	for i := range list.Items {
		o := &list.Items[i]
		before := known[o.GetUID()]
		known[o.GetUID()] = o
		switch {
		case before == nil:
			w.Judge.Object(watch.Added, w.GVR, o, false)
		case before.GetResourceVersion() != o.GetResourceVersion():
			w.Judge.Object(watch.Modified, w.GVR, o, false)
		}
	}
}
