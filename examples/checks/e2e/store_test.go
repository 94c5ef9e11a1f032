package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
)

// TestStore: a Store has what a real server has, reads its own writes, and delivers deletions and recreations, for
// whole objects, JSON and metadata.
func TestStore(t *testing.T) {
	for _, o := range []stream.Options{{}, {Objects: stream.Raw}, {Objects: stream.Metadata}} {
		t.Run(fmt.Sprint("objects ", o.Objects), func(t *testing.T) {
			t.Parallel()
			testStore(t, o)
		})
	}
}

func testStore(t *testing.T, o stream.Options) {
	c := newCluster(t, shared.Config())
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	namespace := unique("store")
	c.create(widgets, namespace, "first")
	client, err := stream.NewClient(shared.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Namespaces = []string{namespace}
	s, err := store.New(newStream(t, client, r, &o), &store.Options{
		Compress: o.Objects == stream.Raw,
		Indexes: map[string]func(stream.Event) []string{
			"label": func(ev stream.Event) []string { return []string{ev.Meta().GetLabels()["test"]} },
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	if err := s.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}

	patch := []byte(`{"metadata":{"annotations":{"note":"patched"}}}`)
	objects := c.objects(widgets, namespace)
	patched, err := objects.Patch(ctx, "first", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitFor(ctx, patched.GetResourceVersion()); err != nil {
		t.Fatal(err)
	}
	got, _ := s.Get(namespace, "first")
	u, err := got.Decode()
	if err != nil {
		t.Fatal(err)
	}
	want := patched.Object
	if o.Objects == stream.Metadata {
		patched.SetManagedFields(nil)
		want = map[string]any{"apiVersion": want["apiVersion"], "kind": want["kind"], "metadata": want["metadata"]}
	}
	if diff := cmp.Diff(want, u.Object); diff != "" {
		t.Errorf("after the patch (-server +store):\n%s", diff)
	}

	var changes []string
	for change, err := range s.Subscribe(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		changes = append(changes, fmt.Sprint(change.Type, " ", change.Old.Name(), ">", change.New.Name()))
		if len(changes) == 2 {
			c.create(widgets, namespace, "second")
			c.delete(widgets, namespace, "first")
			c.create(widgets, namespace, "first")
		}
		if len(changes) == 5 {
			break
		}
	}
	slices.Sort(changes[2:]) // the order depends on whether the subscriber keeps up
	wanted := []string{"ADDED >first", "SYNCED >", "ADDED >first", "ADDED >second", "DELETED first>"}
	if diff := cmp.Diff(wanted, changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	found, err := s.List(store.Query{Index: "label", Value: c.label})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for o := range found {
		names = append(names, o.Name())
	}
	if diff := cmp.Diff([]string{"first", "second"}, names); diff != "" {
		t.Errorf("by the index (-want +got):\n%s", diff)
	}
}
