package informer_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var doors = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"},
	Kind:                 "Door", Namespaced: true, Verbs: []string{"list", "watch"},
}

// A watch.Interface takes the place of a RetryWatcher, here in a function of client-go.
func Example() {
	srv := streamtest.NewServer(doors) // usually a cluster
	defer srv.Close()
	srv.Put(doors, "shop", "front", "spec.open=true")
	if err := waitUntilOpen(srv.Client()); err != nil {
		fmt.Println(err)
	}
	// Output: ADDED front
}

func waitUntilOpen(client dynamic.Interface) error {
	s, err := stream.New(client, doors, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := informer.Watch(ctx, s)
	ev, err := watchtools.UntilWithoutRetry(ctx, w, func(ev watch.Event) (bool, error) {
		open, _, err := unstructured.NestedBool(ev.Object.(*unstructured.Unstructured).Object, "spec", "open")
		return open, err
	})
	if err != nil {
		return err
	}
	<-w.Done() // UntilWithoutRetry has stopped it
	fmt.Println(ev.Type, ev.Object.(*unstructured.Unstructured).GetName())
	return nil
}
