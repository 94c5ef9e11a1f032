package devserver_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// testTimeout bounds each wait. It is long, for busy machines; only failing tests use it up.
const testTimeout = 30 * time.Second

var (
	crds = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	widgetCRD = devserver.CRD{Group: "test.example.com", Kind: "Widget", Namespaced: true}
	widgets   = widgetCRD.Resource()
)

func start(t *testing.T, opts *devserver.Options) *devserver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	s, err := devserver.Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s
}

// createCRD creates the CRD of the widgets and returns when the server serves them.
func createCRD(t *testing.T, client dynamic.Interface) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := devserver.CreateCRDs(ctx, client, widgetCRD); err != nil {
		t.Fatal(err)
	}
}

// awaitDiscovered returns when discovery lists the widgets, which is a moment after the server serves them.
func awaitDiscovered(t *testing.T, client *discovery.DiscoveryClient) {
	t.Helper()
	listed := func(context.Context) (bool, error) {
		groups, _, err := client.ServerGroupsAndResources()
		for _, g := range groups {
			if g.Name == widgets.Group {
				return err == nil, nil
			}
		}
		return false, nil
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, testTimeout, true, listed); err != nil {
		t.Fatal(err)
	}
}

// createWidget creates an object. That takes about 2 s while the CRD is younger than that, so createWidget skips the
// test if -short is given.
func createWidget(t *testing.T, client dynamic.Interface, name string) *unstructured.Unstructured {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the first object of a new CRD takes 2 s (.ci/run runs it, without -short)")
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"size": int64(1)},
	}}
	o, err := client.Resource(widgets).Namespace("default").Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// next returns the next event of a watch. It returns false at the end of the watch.
func next(t *testing.T, w watch.Interface) (watch.Event, bool) {
	t.Helper()
	select {
	case e, open := <-w.ResultChan():
		return e, open
	case <-time.After(testTimeout):
		t.Fatal("the watch neither delivered an event nor ended")
		return watch.Event{}, false
	}
}

func name(e watch.Event) string {
	o, err := meta.Accessor(e.Object)
	if err != nil {
		return err.Error()
	}
	return o.GetName()
}
