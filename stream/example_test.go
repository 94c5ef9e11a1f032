package stream_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

// A program's own test, on client-go's dynamic fake.
func ExampleStream_Events() {
	widgets := gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Namespaced: true, Verbs: []string{"list", "watch"},
	}
	named := func(name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("example.com/v1")
		o.SetKind("Widget")
		o.SetNamespace("default")
		o.SetName(name)
		return o
	}
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{widgets.GroupVersionResource: "WidgetList"}, named("first"))

	s, err := stream.New(client, widgets, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	for ev, err := range s.Events(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch ev.Type {
		case stream.Added, stream.Modified:
			fmt.Println(ev.Type, ev.Object.GetName())
		case stream.Deleted:
			fmt.Println(ev.Type, ev.Object.GetName())
			return
		case stream.Synced:
			fmt.Println("that is all there was")
			api := client.Resource(widgets.GroupVersionResource).Namespace("default")
			_, _ = api.Create(ctx, named("second"), metav1.CreateOptions{})
			_ = api.Delete(ctx, "first", metav1.DeleteOptions{})
		}
	}
	// Output:
	// ADDED first
	// that is all there was
	// ADDED second
	// DELETED first
}
