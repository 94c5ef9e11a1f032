package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// historian records the changes of a resource for [streamtest.Check]. Its server must have no watch cache, and must not
// be compacted: then a watch can resume at any resourceVersion in any version of the API.
type historian struct {
	mu      sync.Mutex
	changes []streamtest.Change
	err     error // of a watch that failed; changes may be missing
}

// recordHistory records the changes after rv until the test ends. The resources are versions of the same resource.
func recordHistory(t *testing.T, cfg *rest.Config, rv string, resources ...schema.GroupVersionResource) *historian {
	h := &historian{}
	client := dynamic.NewForConfigOrDie(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i := 0
		var w watch.Interface
		open := func() (served bool) {
			var err error
			w, err = client.Resource(resources[i%len(resources)]).Watch(ctx, metav1.ListOptions{ResourceVersion: rv})
			i++
			return err == nil
		}
		for {
			if !poll(ctx, timeout, open) {
				h.mu.Lock()
				if ctx.Err() == nil && h.err == nil {
					h.err = fmt.Errorf("no watch can be opened for %v", timeout)
				}
				h.mu.Unlock()
				return
			}
			for ev := range w.ResultChan() {
				o, ok := ev.Object.(*unstructured.Unstructured)
				if ev.Type == watch.Error || !ok || ev.Type == watch.Bookmark {
					h.mu.Lock()
					if ctx.Err() == nil {
						h.err = apierrors.FromObject(ev.Object)
					}
					h.mu.Unlock()
					break
				}
				rv = o.GetResourceVersion()
				h.mu.Lock()
				h.changes = append(h.changes, streamtest.Change{
					Type: ev.Type, Object: o, ResourceVersion: rv, At: time.Now(),
				})
				h.mu.Unlock()
			}
			w.Stop()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return h
}

// history waits for a number of changes, and returns all in the version of r.
func (h *historian) history(t *testing.T, r gvr.Resource, changes int) streamtest.History {
	t.Helper()
	poll(t.Context(), timeout, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.changes) >= changes || h.err != nil
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		t.Fatalf("recording the history: %v", h.err)
	}
	var all streamtest.History
	for _, c := range h.changes {
		c.Object = c.Object.DeepCopy()
		normalize(c.Object, r)
		all.Changes = append(all.Changes, c)
	}
	return all
}

// normalize sets the apiVersion of an object to that of r, and removes its managedFields, which depend on the version.
func normalize(o *unstructured.Unstructured, r gvr.Resource) {
	o.SetAPIVersion(r.GroupVersion().String())
	o.SetManagedFields(nil)
}

// inVersion returns events with their objects normalized to the version of r.
func inVersion(events []stream.Event, r gvr.Resource) []stream.Event {
	var all []stream.Event
	for _, ev := range events {
		ev.Resource = r
		if ev.Object != nil {
			ev.Object = ev.Object.DeepCopy()
			normalize(ev.Object, r)
		}
		all = append(all, ev)
	}
	return all
}
