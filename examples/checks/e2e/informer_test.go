package e2e

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
)

// TestInformer runs a factory's informer on a kube-apiserver: its handlers receive each change, and a recreated object
// as a deletion and an addition.
func TestInformer(t *testing.T) {
	c := newCluster(t, shared.Config())
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	namespace := unique("informed")
	c.create(widgets, namespace, "before")
	client, err := stream.NewClient(shared.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	informers, err := factory.New(client, 0, &stream.Options{Namespaces: []string{namespace}})
	if err != nil {
		t.Fatal(err)
	}
	var (
		mu  sync.Mutex
		got []string
	)
	note := func(verb string, obj any) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, verb+" "+obj.(*unstructured.Unstructured).GetName())
	}
	generic := informers.ForResource(r.GroupVersionResource)
	_, err = generic.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { note("add", obj) },
		UpdateFunc: func(_, obj any) { note("update", obj) },
		DeleteFunc: func(obj any) { note("delete", obj) },
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	informers.Start(stop)
	defer func() {
		close(stop)
		informers.Shutdown()
	}()
	if !poll(t.Context(), timeout, generic.Informer().HasSynced) {
		t.Fatal("the informer has not synced")
	}
	c.touch(widgets, namespace, "before")
	c.delete(widgets, namespace, "before")
	second := c.create(widgets, namespace, "before")
	c.create(widgets, namespace, "after")
	want := []string{"add before", "update before", "delete before", "add before", "add after"}
	received := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
	poll(t.Context(), timeout, func() bool { return len(received()) >= len(want) })
	if diff := cmp.Diff(want, received()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	stored, err := generic.Lister().ByNamespace(namespace).Get("before")
	if err != nil {
		t.Fatal(err)
	}
	if uid := stored.(*unstructured.Unstructured).GetUID(); uid != second.GetUID() {
		t.Errorf("the store has uid %s, want %s", uid, second.GetUID())
	}
	if all, err := generic.Lister().List(labels.Everything()); err != nil || len(all) != 2 {
		t.Errorf("the store has %d objects, %v; want 2", len(all), err)
	}
}
