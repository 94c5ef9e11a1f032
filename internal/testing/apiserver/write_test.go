package apiserver_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/store"
)

func widget(name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
		"spec": spec}}
	o.SetNamespace("x")
	o.SetName(name)
	return o
}

func TestCreateUpdateDelete(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		given := widget("a", map[string]any{"size": 1, "weight": 1.5}) // an int is accepted, too
		created, err := srv.Create(widgets, given)
		if err != nil {
			t.Fatal(err)
		}
		want := widget("a", map[string]any{"size": int64(1), "weight": 1.5})
		want.SetUID("00000000-0000-4000-8000-000000000001")
		want.SetResourceVersion("2")
		want.SetGeneration(1)
		want.SetCreationTimestamp(metav1.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
		if diff := cmp.Diff(want.Object, created.Object); diff != "" || given.GetUID() != "" {
			t.Fatalf("the argument got the uid %q (-want +got):\n%s", given.GetUID(), diff)
		}
		same, err := srv.Update(widgets, created)
		if err != nil || same.GetResourceVersion() != "2" || srv.ResourceVersion() != "2" {
			t.Errorf("an update without a change made version %s, %v", same.GetResourceVersion(), err)
		}
		changed := created.DeepCopy()
		_ = unstructured.SetNestedField(changed.Object, int64(2), "spec", "size")
		changed, err = srv.Update(widgets, changed)
		if err != nil || changed.GetResourceVersion() != "3" || changed.GetGeneration() != 2 ||
			changed.GetUID() != created.GetUID() {
			t.Errorf("the update made %v, %v", changed, err)
		}
		other := changed.DeepCopy()
		other.SetUID("another")
		for why, o := range map[string]*unstructured.Unstructured{"an old version": created, "another uid": other} {
			if _, err := srv.Update(widgets, o); !apierrors.IsConflict(err) {
				t.Errorf("an update of %s: %v", why, err)
			}
		}
		if _, err := srv.Create(widgets, given); !apierrors.IsAlreadyExists(err) {
			t.Errorf("created again: %v", err)
		}
		gone, err := srv.Delete(widgets, "x", "a")
		if err != nil || gone.GetResourceVersion() != "4" || gone.GetUID() != created.GetUID() {
			t.Errorf("Delete returned %v, %v", gone, err)
		}
		_, again := srv.Delete(widgets, "x", "a")
		_, updated := srv.Update(widgets, created)
		if !apierrors.IsNotFound(again) || !apierrors.IsNotFound(updated) {
			t.Errorf("deleted again: %v; updated: %v", again, updated)
		}
	})
}

func TestWriteErrors(t *testing.T) {
	nowhere, otherKind, unserved := widget("a", nil), widget("a", nil), widgets
	nowhere.SetNamespace("")
	otherKind.SetKind("Gadget")
	unserved.Version = "v9"
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		for _, tc := range []struct {
			why    string
			to     gvr.Resource
			object *unstructured.Unstructured
			is     func(error) bool
		}{
			{"it has no name", widgets, widget("", nil), apierrors.IsBadRequest},
			{"it has no namespace", widgets, nowhere, apierrors.IsBadRequest},
			{"it has a namespace", globes, widget("a", nil), apierrors.IsBadRequest},
			{"it is of another kind", widgets, otherKind, apierrors.IsBadRequest},
			{"it cannot be encoded as JSON", widgets, widget("a", map[string]any{"c": make(chan int)}),
				apierrors.IsBadRequest},
			{"the resource is not served", unserved, widget("a", nil), apierrors.IsNotFound},
		} {
			if _, err := srv.Create(tc.to, tc.object); !tc.is(err) || srv.ResourceVersion() != "1" {
				t.Errorf("%s: got %v, at version %s", tc.why, err, srv.ResourceVersion())
			}
		}
		if _, err := srv.Delete(unserved, "x", "a"); !apierrors.IsNotFound(err) {
			t.Errorf("Delete from a resource that is not served: %v", err)
		}
	})
}

func TestPutChangesOnlyTheGivenFields(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		srv.Put(widgets, "x", "a", "labels.example.com/app=web", "spec.size=3", "spec.color=red", "spec.on=true",
			"spec.big=9007199254740993")
		o := srv.Put(widgets, "x", "a", "spec.size=4", "status.ready=false")
		want := map[string]any{"size": int64(4), "color": "red", "on": true, "big": int64(9007199254740993)}
		if diff := cmp.Diff(want, o.Object["spec"]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if o.GetLabels()["example.com/app"] != "web" || o.GetGeneration() != 2 {
			t.Errorf("got %v", o.Object["metadata"])
		}
		defer func() {
			if recover() == nil {
				t.Error("Put accepted a field without a value")
			}
		}()
		srv.Put(widgets, "x", "a", "spec.size")
	})
}

func TestFinalizersDelayTheDeletion(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		srv.Put(widgets, "x", "a", `metadata.finalizers=["example.com/wait"]`)
		for range 2 {
			o, err := srv.Delete(widgets, "x", "a")
			if err != nil || o.GetDeletionTimestamp() == nil || o.GetResourceVersion() != "3" {
				t.Errorf("Delete of an object with a finalizer returned %v, %v", o, err)
			}
		}
		srv.Put(widgets, "x", "a", "metadata.finalizers=[]")
		want := []string{"ADDED a@2", "MODIFIED a@3", "DELETED a@4"}
		var got []string
		for _, c := range logOf(t, srv, store.Selection{}).Changes {
			got = append(got, string(c.Type)+" a@"+c.Object.GetResourceVersion())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestClientWrites(t *testing.T) {
	bubble(t, func(t *testing.T, srv *apiserver.Server) {
		ctx, client := t.Context(), srv.Client().Resource(widgets.GroupVersionResource).Namespace("x")
		o, err := client.Create(ctx, widget("a", map[string]any{"size": int64(1)}), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Create(ctx, widget("a", nil), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("create again: %v", err)
		}
		o.SetLabels(map[string]string{"app": "web"})
		if o, err = client.Update(ctx, o, metav1.UpdateOptions{}); err != nil || o.GetResourceVersion() != "3" {
			t.Errorf("update returned %v, %v", o, err)
		}
		if got, err := client.Get(ctx, "a", metav1.GetOptions{}); err != nil || got.GetLabels()["app"] != "web" {
			t.Errorf("got %v, %v", got, err)
		}
		if err := client.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := client.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get after delete: %v", err)
		}
		globe := widget("earth", nil)
		globe.SetKind("Globe")
		globe.SetNamespace("")
		if _, err := srv.Client().Resource(globes.GroupVersionResource).Create(ctx, globe,
			metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := srv.Client().Resource(widgets.GroupVersionResource).Get(ctx, "c",
			metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get without a namespace: %v", err)
		}
		readOnly := widgets
		readOnly.Verbs = []string{"get", "list", "watch"}
		srv.Serve(readOnly)
		for _, err := range []error{
			client.Delete(ctx, "c", metav1.DeleteOptions{}),
			client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		} {
			if !apierrors.IsMethodNotSupported(err) {
				t.Errorf("unsupported verb: %v", err)
			}
		}
	})
}
