package main

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Here are the loops that programs have around client-go's list and watch. Each waits for a second after a failure.

const peerPause = time.Second

// peerLoop calls once for each resource, again whenever it returns.
func peerLoop(
	ctx context.Context, w *world, once func(context.Context, dynamic.ResourceInterface, crdInfo) error, rec *recording,
) error {
	client, err := newDynamicClient(w.config(true), true)
	if err != nil {
		return err
	}
	return each(w.definitions.resources(), func(info crdInfo) error {
		for ctx.Err() == nil {
			err := once(ctx, client.Resource(info.GVR), info)
			if err == nil {
				pause(ctx, peerPause/10)
			} else if ctx.Err() == nil {
				rec.fail(err)
				pause(ctx, peerPause)
			}
		}
		return nil
	})
}

// listAll lists all objects in pages.
func listAll(ctx context.Context, c dynamic.ResourceInterface) (*unstructured.UnstructuredList, error) {
	all := &unstructured.UnstructuredList{}
	for o := (metav1.ListOptions{Limit: 500}); ; {
		list, err := c.List(ctx, o)
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

// recordWatch records the events of a watch until it ends. seen is called for each.
func recordWatch(
	events <-chan watch.Event, info crdInfo, rec *recording, seen func(Kind, *unstructured.Unstructured),
) {
	for ev := range events {
		o, ok := ev.Object.(*unstructured.Unstructured)
		switch {
		case ev.Type == watch.Error:
			return
		case !ok, ev.Type == watch.Bookmark:
		default:
			rec.add(peerReport(Kind(ev.Type), info, o, false))
			if seen != nil {
				seen(Kind(ev.Type), o)
			}
		}
	}
}

// recordList records the objects of a list as ADDED, and SYNCED after the first list.
func recordList(list *unstructured.UnstructuredList, info crdInfo, first bool, rec *recording) {
	for i := range list.Items {
		rec.add(peerReport(added, info, &list.Items[i], !first))
	}
	if first {
		rec.add(peerSynced(info, list.GetResourceVersion()))
	}
}

// retryWatcher lists, then watches with a RetryWatcher. When that ends it begins again.
type retryWatcher struct{}

func (retryWatcher) subject() subject { return subject{Name: "RetryWatcher"} }

func (retryWatcher) run(ctx context.Context, w *world, rec *recording) error {
	return listAndWatch(ctx, w, rec, func(c dynamic.ResourceInterface, version string) (watch.Interface, error) {
		return watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, o)
			},
		})
	})
}

// naiveLoop lists, then watches. When the watch ends it begins again.
type naiveLoop struct{}

func (naiveLoop) subject() subject { return subject{Name: "naive loop"} }

func (naiveLoop) run(ctx context.Context, w *world, rec *recording) error {
	return listAndWatch(ctx, w, rec, func(c dynamic.ResourceInterface, version string) (watch.Interface, error) {
		return c.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	})
}

// listAndWatch lists each resource, then watches it with open from the list's version. When the watch ends it begins
// again.
func listAndWatch(
	ctx context.Context, w *world, rec *recording,
	open func(c dynamic.ResourceInterface, version string) (watch.Interface, error),
) error {
	first := newFirst()
	return peerLoop(ctx, w, func(ctx context.Context, c dynamic.ResourceInterface, info crdInfo) error {
		list, err := listAll(ctx, c)
		if err != nil {
			return err
		}
		recordList(list, info, first.is(info), rec)
		events, err := open(c, list.GetResourceVersion())
		if err != nil {
			return err
		}
		defer events.Stop()
		recordWatch(events.ResultChan(), info, rec, nil)
		return nil
	}, rec)
}

// diffLoop keeps the version of each object. When the watch ends it lists, reports the differences, and watches again.
type diffLoop struct{}

func (diffLoop) subject() subject { return subject{Name: "list-diff-watch loop"} }

func (diffLoop) run(ctx context.Context, w *world, rec *recording) error {
	client, err := newDynamicClient(w.config(true), true)
	if err != nil {
		return err
	}
	return each(w.definitions.resources(), func(info crdInfo) error {
		known := map[types.UID]*unstructured.Unstructured{}
		for first := true; ctx.Err() == nil; {
			list, err := listAll(ctx, client.Resource(info.GVR))
			if err != nil {
				pause(ctx, peerPause)
				continue
			}
			recordDifferences(known, list, info, first, rec)
			first = false
			events, err := client.Resource(info.GVR).Watch(ctx, metav1.ListOptions{
				ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true,
			})
			if err == nil {
				recordWatch(events.ResultChan(), info, rec, func(kind Kind, o *unstructured.Unstructured) {
					if known[o.GetUID()] = o; kind == deleted {
						delete(known, o.GetUID())
					}
				})
				events.Stop()
			}
			pause(ctx, peerPause)
		}
		return nil
	})
}

// recordDifferences records how a list differs from what is known, and makes it known.
func recordDifferences(
	known map[types.UID]*unstructured.Unstructured, list *unstructured.UnstructuredList, info crdInfo, first bool,
	rec *recording,
) {
	exists := map[types.UID]bool{}
	for _, o := range list.Items {
		exists[o.GetUID()] = true
	}
	for uid, o := range known {
		if !exists[uid] {
			rec.add(peerReport(deleted, info, o, true))
			delete(known, uid)
		}
	}
	for i := range list.Items {
		o := &list.Items[i]
		before := known[o.GetUID()]
		known[o.GetUID()] = o
		switch {
		case before == nil:
			rec.add(peerReport(added, info, o, !first))
		case before.GetResourceVersion() != o.GetResourceVersion():
			rec.add(peerReport(modified, info, o, true))
		}
	}
	if first {
		rec.add(peerSynced(info, list.GetResourceVersion()))
	}
}
