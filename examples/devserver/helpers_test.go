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

// patience bounds every wait. It is for a busy machine and spent on failure only.
const patience = 30 * time.Second

var (
	crds    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets = schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: "widgets"}
)

func start(t *testing.T, opts *devserver.Options) *devserver.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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

// createCRD defines the widgets and returns when they are served and discovered.
func createCRD(t *testing.T, client dynamic.Interface) {
	t.Helper()
	if err := defineWidgets(t.Context(), client); err != nil {
		t.Fatal(err)
	}
}

func defineWidgets(ctx context.Context, client dynamic.Interface) error {
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.test.example.com"},
		"spec": map[string]any{
			"group": "test.example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "kind": "Widget"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object",
					"properties": map[string]any{"spec": map[string]any{
						"type": "object", "x-kubernetes-preserve-unknown-fields": true,
					}},
				}},
			}},
		},
	}}
	if _, err := client.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		_, err := client.Resource(widgets).List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

// awaitDiscovered returns when both discovery forms list the widgets: they lag
// behind serving by a moment.
func awaitDiscovered(t *testing.T, client *discovery.DiscoveryClient) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		groups, _, err := client.ServerGroupsAndResources()
		for _, g := range groups {
			if g.Name == widgets.Group {
				return err == nil, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// createWidget creates an object. It takes about 2 s while the CRD is younger
// than that.
func createWidget(t *testing.T, client dynamic.Interface, name string) *unstructured.Unstructured {
	t.Helper()
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

// next returns the next event of a watch, or false at its end.
func next(t *testing.T, w watch.Interface) (watch.Event, bool) {
	t.Helper()
	select {
	case e, open := <-w.ResultChan():
		return e, open
	case <-time.After(patience):
		t.Fatal("a watch neither ended nor gave an event")
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
