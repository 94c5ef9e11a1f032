package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gvrwatch/gvrwatch/stream"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

var errClosed = errors.New("the watch was closed before the last event")

// fromList returns the options of a watch that starts at the list's resourceVersion.
func fromList() metav1.ListOptions {
	return metav1.ListOptions{ResourceVersion: strconv.Itoa(firstVersion), AllowWatchBookmarks: true}
}

func stockWatch(l *lap) error {
	client, err := dynamic.NewForConfig(l.config())
	if err != nil {
		return err
	}
	return plainWatch(l, client)
}

func fastWatch(l *lap) error {
	client, err := stream.NewClient(l.config(), nil)
	if err != nil {
		return err
	}
	return plainWatch(l, client)
}

func plainWatch(l *lap, client dynamic.Interface) error {
	w, err := client.Resource(pods).Watch(l.ctx, fromList())
	if err != nil {
		return err
	}
	return consumeWatch(l, w)
}

func retryWatcher(l *lap) error {
	client, err := dynamic.NewForConfig(l.config())
	if err != nil {
		return err
	}
	w, err := watchtools.NewRetryWatcherWithContext(l.ctx, strconv.Itoa(firstVersion), &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Resource(pods).Watch(ctx, o)
		},
	})
	if err != nil {
		return err
	}
	return consumeWatch(l, w)
}

// consumeWatch counts the events of a watch.
func consumeWatch(l *lap, w watch.Interface) error {
	defer w.Stop()
	if err := l.synced(); err != nil {
		return err
	}
	for ev := range w.ResultChan() {
		switch ev.Type {
		case watch.Modified:
			if l.event(ev.Object.(metav1.Object)) {
				return nil
			}
		case watch.Bookmark:
		case watch.Error:
			return apierrors.FromObject(ev.Object)
		default:
			return fmt.Errorf("unexpected event of type %s", ev.Type)
		}
	}
	return errors.Join(errClosed, context.Cause(l.ctx))
}

func wholeList(l *lap) error {
	client, err := dynamic.NewForConfig(l.config())
	if err != nil {
		return err
	}
	list, err := client.Resource(pods).List(l.ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return listed(l, len(list.Items))
}

// pagedList drops each page before it requests the next.
func pagedList(l *lap) error {
	client, err := dynamic.NewForConfig(l.config())
	if err != nil {
		return err
	}
	n := 0
	for o := (metav1.ListOptions{Limit: 500}); ; {
		list, err := client.Resource(pods).List(l.ctx, o)
		if err != nil {
			return err
		}
		n += len(list.Items)
		if o.Continue = list.GetContinue(); o.Continue == "" {
			return listed(l, n)
		}
	}
}

func listed(l *lap, n int) error {
	if n != l.Scenario.Objects {
		return fmt.Errorf("listed %d objects, want %d", n, l.Scenario.Objects)
	}
	return l.synced()
}
