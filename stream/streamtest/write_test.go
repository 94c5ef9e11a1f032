package streamtest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func widget(name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "spec": spec}}
	o.SetNamespace("x")
	o.SetName(name)
	return o
}

func TestCreateUpdateDelete(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		given := widget("a", map[string]any{"size": int64(1)})
		created, err := srv.Create(widgets, given)
		if err != nil {
			t.Fatal(err)
		}
		want := widget("a", map[string]any{"size": int64(1)})
		want.SetUID("00000000-0000-4000-8000-000000000001")
		want.SetResourceVersion("2")
		want.SetGeneration(1)
		want.SetCreationTimestamp(metav1.Date(2000, 1, 1, 0, 0, 0, 0, metav1.Now().UTC().Location()))
		if diff := cmp.Diff(want.Object, created.Object); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if given.GetUID() != "" {
			t.Error("what was given has been changed")
		}
		if _, err := srv.Create(widgets, given); !apierrors.IsAlreadyExists(err) {
			t.Errorf("again: %v", err)
		}
		same, err := srv.Update(widgets, created)
		if err != nil || same.GetResourceVersion() != "2" || srv.ResourceVersion() != "2" {
			t.Errorf("an update that changes nothing made version %s, %v", same.GetResourceVersion(), err)
		}
		changed := created.DeepCopy()
		_ = unstructured.SetNestedField(changed.Object, int64(2), "spec", "size")
		if changed, err = srv.Update(widgets, changed); err != nil || changed.GetResourceVersion() != "3" || changed.GetGeneration() != 2 || changed.GetUID() != created.GetUID() {
			t.Errorf("an update made %v, %v", changed, err)
		}
		if _, err := srv.Update(widgets, created); !apierrors.IsConflict(err) {
			t.Errorf("an update of what is no longer: %v", err)
		}
		other := changed.DeepCopy()
		other.SetUID("another")
		if _, err := srv.Update(widgets, other); !apierrors.IsConflict(err) {
			t.Errorf("an update of another incarnation: %v", err)
		}
		gone, err := srv.Delete(widgets, "x", "a")
		if err != nil || gone.GetResourceVersion() != "4" || gone.GetUID() != created.GetUID() {
			t.Errorf("it was deleted as %v, %v", gone, err)
		}
		if _, err := srv.Delete(widgets, "x", "a"); !apierrors.IsNotFound(err) {
			t.Errorf("again: %v", err)
		}
		if _, err := srv.Update(widgets, created); !apierrors.IsNotFound(err) {
			t.Errorf("an update of what has gone: %v", err)
		}
	})
}

func TestWriteErrors(t *testing.T) {
	nameless, nowhere, elsewhere, otherKind := widget("", nil), widget("a", nil), widget("a", nil), widget("a", nil)
	nowhere.SetNamespace("")
	otherKind.SetKind("Gadget")
	unserved := widgets
	unserved.Version = "v9"
	tests := []struct {
		why  string
		try  func(*streamtest.Server) error
		is   func(error) bool
		want string
	}{
		{"no name", func(s *streamtest.Server) error { _, err := s.Create(widgets, nameless); return err }, apierrors.IsBadRequest, "BadRequest"},
		{"no namespace", func(s *streamtest.Server) error { _, err := s.Create(widgets, nowhere); return err }, apierrors.IsBadRequest, "BadRequest"},
		{"a namespace", func(s *streamtest.Server) error { _, err := s.Create(globes, elsewhere); return err }, apierrors.IsBadRequest, "BadRequest"},
		{"another kind", func(s *streamtest.Server) error { _, err := s.Create(widgets, otherKind); return err }, apierrors.IsBadRequest, "BadRequest"},
		{"not served", func(s *streamtest.Server) error { _, err := s.Create(unserved, widget("a", nil)); return err }, apierrors.IsNotFound, "NotFound"},
		{"not served", func(s *streamtest.Server) error { _, err := s.Delete(unserved, "x", "a"); return err }, apierrors.IsNotFound, "NotFound"},
	}
	for _, tc := range tests {
		bubble(t, func(t *testing.T, srv *streamtest.Server) {
			if err := tc.try(srv); !tc.is(err) {
				t.Errorf("%s: got %v, want %s", tc.why, err, tc.want)
			}
			if rv := srv.ResourceVersion(); rv != "1" {
				t.Errorf("%s: it made version %s", tc.why, rv)
			}
		})
	}
}

func TestPut(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		srv.Put(widgets, "x", "a", "labels.example.com/app=web", "spec.size=3", "spec.color=red", "spec.on=true", "spec.big=9007199254740993")
		o := srv.Put(widgets, "x", "a", "spec.size=4", "status.ready=false")
		if diff := cmp.Diff(map[string]any{"size": int64(4), "color": "red", "on": true, "big": int64(9007199254740993)}, o.Object["spec"]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if o.GetLabels()["example.com/app"] != "web" || o.GetGeneration() != 2 {
			t.Errorf("got %v", o.Object["metadata"])
		}
		defer func() {
			if recover() == nil {
				t.Error("a field without a value does not panic")
			}
		}()
		srv.Put(widgets, "x", "a", "spec.size")
	})
}

func TestFinalizers(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		srv.Put(widgets, "x", "a", `metadata.finalizers=["example.com/wait"]`)
		for range 2 {
			if o, err := srv.Delete(widgets, "x", "a"); err != nil || o.GetDeletionTimestamp() == nil || o.GetResourceVersion() != "3" {
				t.Errorf("deleted with a finalizer it is %v, %v", o, err)
			}
		}
		srv.Put(widgets, "x", "a", "metadata.finalizers=[]")
		want := []string{"ADDED a@2", "MODIFIED a@3", "DELETED a@4"}
		var got []string
		for _, c := range srv.History(widgets, streamtest.Scope{}).Changes {
			got = append(got, string(c.Type)+" a@"+c.Object.GetResourceVersion())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestClientWrites(t *testing.T) {
	bubble(t, func(t *testing.T, srv *streamtest.Server) {
		ctx, client := t.Context(), srv.Client().Resource(widgets.GroupVersionResource).Namespace("x")
		o, err := client.Create(ctx, widget("a", map[string]any{"size": int64(1), "old": true}), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Create(ctx, widget("a", nil), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("again: %v", err)
		}
		o.SetLabels(map[string]string{"app": "web"})
		if o, err = client.Update(ctx, o, metav1.UpdateOptions{}); err != nil || o.GetResourceVersion() != "3" {
			t.Errorf("updated to %v, %v", o, err)
		}
		patched, err := client.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"size":2,"old":null}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]any{"size": int64(2)}, patched.Object["spec"]); diff != "" {
			t.Errorf("patched (-want +got):\n%s", diff)
		}
		if _, err := client.Patch(ctx, "a", types.JSONPatchType, []byte(`[]`), metav1.PatchOptions{}); !apierrors.IsUnsupportedMediaType(err) {
			t.Errorf("a JSON patch: %v", err)
		}
		uid := types.UID("another")
		if err := client.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); !apierrors.IsConflict(err) {
			t.Errorf("deleted another one: %v", err)
		}
		if got, err := client.Get(ctx, "a", metav1.GetOptions{}); err != nil || got.GetResourceVersion() != "4" {
			t.Errorf("got %v, %v", got, err)
		}
		if err := client.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := client.Get(ctx, "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after its end: %v", err)
		}
		srv.Put(widgets, "x", "b", "labels.app=web")
		srv.Put(widgets, "x", "c")
		if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"}); err != nil {
			t.Error(err)
		}
		if got := listText(list(t, srv, "", metav1.ListOptions{})); got != "@8: c@7" {
			t.Errorf("left is %s", got)
		}
		globe := widget("earth", nil)
		globe.SetKind("Globe")
		globe.SetNamespace("")
		if _, err := srv.Client().Resource(globes.GroupVersionResource).Create(ctx, globe, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := srv.Client().Resource(widgets.GroupVersionResource).Get(ctx, "c", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a get without a namespace: %v", err)
		}
		readOnly := widgets
		readOnly.Verbs = []string{"get", "list", "watch"}
		srv.Serve(readOnly)
		if err := client.Delete(ctx, "c", metav1.DeleteOptions{}); !apierrors.IsMethodNotSupported(err) {
			t.Errorf("deleted without the verb: %v", err)
		}
	})
}
