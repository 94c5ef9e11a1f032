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
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A Stream on client-go's dynamic fake, as in a program's own test.
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
			fmt.Println(ev.Type)
			api := client.Resource(widgets.GroupVersionResource).Namespace("default")
			_, _ = api.Create(ctx, named("second"), metav1.CreateOptions{})
			_ = api.Delete(ctx, "first", metav1.DeleteOptions{})
		}
	}
	// Output:
	// ADDED first
	// SYNCED
	// ADDED second
	// DELETED first
}

// Until waits until an object has a label. The object may already have it.
func ExampleUntil() {
	srv := streamtest.NewServer(widgets())
	defer srv.Close()
	srv.Put(widgets(), "default", "door", "labels.state=shut")

	s, err := stream.New(srv.Client(), widgets(), &stream.Options{Name: "door"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ev, err := stream.Until(s.Events(context.Background()), func(ev stream.Event) (bool, error) {
		if ev.Type == stream.Synced {
			fmt.Println("not yet: open it")
			srv.Put(widgets(), "default", "door", "labels.state=open")
		}
		return ev.Object != nil && ev.Object.GetLabels()["state"] == "open", nil
	})
	fmt.Println(ev.Type, ev.Object.GetLabels()["state"], err)
	// Output:
	// not yet: open it
	// MODIFIED open <nil>
}

// A second Stream continues where the first one stopped.
func ExampleFrom() {
	srv := streamtest.NewServer(widgets())
	defer srv.Close()
	for _, name := range []string{"a", "b", "c"} {
		srv.Put(widgets(), "default", name)
	}
	ctx := context.Background()

	first, err := stream.New(srv.Client(), widgets(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev := range first.Events(ctx) {
		fmt.Println(ev.Type, ev.Object.GetName())
		if ev.Object.GetName() == "b" {
			break
		}
	}
	position := first.Position()

	// Meanwhile, an object that the first Stream delivered is deleted.
	_, _ = srv.Delete(widgets(), "default", "a")

	second, err := stream.New(srv.Client(), widgets(), &stream.Options{Start: stream.From(position), UntilSynced: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev := range second.Events(ctx) {
		if ev.Object != nil {
			fmt.Println(ev.Type, ev.Object.GetName())
		}
	}
	// Output:
	// ADDED a
	// ADDED b
	// ADDED c
	// DELETED a
}
