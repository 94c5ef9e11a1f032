package e2e

import (
	"context"
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

// historian writes down what truly happens to a resource, for streamtest.Check. Its
// server must have no watch cache: then a watch can go on from any version, in any
// version of the API, as long as nobody compacts.
type historian struct {
	mu      sync.Mutex
	changes []streamtest.Change
	err     error // it has missed something
}

// recordHistory begins at rv, and ends with the test. The resources are the versions
// of one storage.
func recordHistory(t *testing.T, cfg *rest.Config, rv string, resources ...schema.GroupVersionResource) *historian {
	h := &historian{}
	client := dynamic.NewForConfigOrDie(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			w, err := client.Resource(resources[i%len(resources)]).Watch(ctx, metav1.ListOptions{ResourceVersion: rv})
			if err != nil {
				time.Sleep(10 * time.Millisecond) // not served in this version
				continue
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
				h.changes = append(h.changes, streamtest.Change{Type: ev.Type, Object: o, ResourceVersion: rv, At: time.Now()})
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

// history is what happened, in the words of one version. It waits until so many
// changes are written down.
func (h *historian) history(t *testing.T, r gvr.Resource, changes int) streamtest.History {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for began := time.Now(); len(h.changes) < changes && h.err == nil && time.Since(began) < timeout; {
		h.mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		h.mu.Lock()
	}
	if h.err != nil {
		t.Fatalf("the history is not known: %v", h.err)
	}
	var all streamtest.History
	for _, c := range h.changes {
		c.Object = c.Object.DeepCopy()
		normalize(c.Object, r)
		all.Changes = append(all.Changes, c)
	}
	return all
}

// normalize takes out of an object what tells in which version it was asked for.
func normalize(o *unstructured.Unstructured, r gvr.Resource) {
	o.SetAPIVersion(r.GroupVersion().String())
	o.SetManagedFields(nil)
}

// inVersion is what was told, in the words of the same version.
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
