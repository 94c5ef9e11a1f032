package informer

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// What is no longer needed does not stay in memory for as long as the run lasts.
func TestNothingIsRetained(t *testing.T) {
	s := &states{objects: map[identity]any{}, deleted: map[*unstructured.Unstructured]bool{}}
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetUID("u")
	for _, inferred := range []bool{false, true} {
		if _, err := s.transformed(o); err != nil {
			t.Fatal(err)
		}
		s.deleting(o, inferred)
		if _, err := s.transformed(o); err != nil {
			t.Fatal(err)
		}
		if len(s.objects)+len(s.deleted) > 0 {
			t.Errorf("inferred %v: after its deletion an object is still in %v", inferred, s)
		}
	}

	r := gvr.Resource{Kind: "Widget", Namespaced: true, GroupVersionResource: schema.GroupVersionResource{
		Group: "example.com", Version: "v1", Resource: "widgets"}}
	srv := streamtest.NewServer(r)
	defer srv.Close()
	srv.Put(r, "shop", "door")
	one, err := stream.New(srv.Client(), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := NewListerWatcher(one)
	defer l.end()
	if _, err := l.List(metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if l.waiting.list.items != nil || l.waiting.list.objects != nil || l.waiting.list.known != nil {
		t.Error("the run of a List retains the list")
	}
}
