package stream_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
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
		if ev.Type != stream.Synced {
			fmt.Println(ev)
		}
		switch ev.Type {
		case stream.Deleted:
			return
		case stream.Gap:
			fmt.Println("only the differences follow: the events between were lost")
		case stream.Synced:
			fmt.Println("what existed has been delivered")
			api := client.Resource(widgets.GroupVersionResource).Namespace("default")
			_, _ = api.Create(ctx, named("second"), metav1.CreateOptions{})
			_ = api.Delete(ctx, "first", metav1.DeleteOptions{})
		}
	}
	// Output:
	// ADDED default/first
	// what existed has been delivered
	// ADDED default/second
	// DELETED default/first
}

// Until waits until an object has a label. The object may already have it.
func ExampleUntil() {
	widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	srv.Put(widgets, "default", "door", "labels.state=shut")

	s, err := stream.New(srv.Client(), widgets, &stream.Options{Name: "door"})
	if err != nil {
		fmt.Println(err)
		return
	}
	ev, err := stream.Until(s.Events(context.Background()), func(ev stream.Event) (bool, error) {
		if ev.Type == stream.Synced {
			fmt.Println("not yet: open it")
			srv.Put(widgets, "default", "door", "labels.state=open")
		}
		return ev.Object != nil && ev.Object.GetLabels()["state"] == "open", nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ev, ev.Object.GetLabels())
	// Output:
	// not yet: open it
	// MODIFIED default/door@3 map[state:open]
}

// A second Stream continues where the first one stopped, here within the first snapshot: the GAP says that only the
// differences follow.
func ExampleFrom() {
	widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	for _, name := range []string{"a", "b", "c"} {
		srv.Put(widgets, "default", name)
	}
	ctx := context.Background()

	first, err := stream.New(srv.Client(), widgets, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range first.Events(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev)
		if ev.NamespacedName().Name == "b" {
			break
		}
	}
	position := first.Position()

	// Meanwhile, an object that the first Stream delivered is deleted.
	_, _ = srv.Delete(widgets, "default", "a")

	second, err := stream.New(srv.Client(), widgets, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range second.With(stream.Run{Start: stream.From(position), Until: stream.UntilSynced}).Events(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev)
	}
	// Output:
	// ADDED default/a@2
	// ADDED default/b@3
	// GAP restarted ..5
	// ADDED default/c@4 inferred
	// DELETED default/a@2 inferred
	// SYNCED @5
}

// As decodes the object of an event into a type. With Raw that is done once, and only for events that need it.
func ExampleAs() {
	pods := gvr.Resource{Kind: "Pod", Namespaced: true, Verbs: []string{"list", "watch"}}
	pods.Version, pods.Resource = "v1", "pods"
	srv := streamtest.NewServer(pods) // usually a cluster
	defer srv.Close()
	srv.Put(pods, "shop", "web", "spec.nodeName=node-1")
	s, err := stream.New(srv.Client(), pods, &stream.Options{Objects: stream.Raw})
	if err != nil {
		fmt.Println(err)
		return
	}
	for ev, err := range s.With(stream.Run{Until: stream.UntilSynced}).Events(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if !ev.HasObject() {
			continue // SYNCED
		}
		pod, err := stream.As[corev1.Pod](ev)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(pod.Name, "is on", pod.Spec.NodeName)
	}
	// Output: web is on node-1
}
