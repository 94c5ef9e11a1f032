package configmap_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/configmap"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var doors = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"},
	Kind:                 "Door", Namespaced: true, Verbs: []string{"list", "watch"},
}

// A program without a volume resumes from a ConfigMap.
func Example() {
	srv := streamtest.NewServer(doors, gvr.Resource{ // usually a cluster
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Kind:                 "ConfigMap", Namespaced: true,
	})
	defer srv.Close()
	srv.Put(doors, "shop", "front")
	if err := run(srv.Client(), stream.Synced); err != nil {
		fmt.Println(err)
	}
	_, _ = srv.Delete(doors, "shop", "front")
	fmt.Println("again")
	if err := run(srv.Client(), stream.Deleted); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ADDED shop/front
	// again
	// DELETED shop/front
}

// run handles and acks events, up to one of type last.
func run(client dynamic.Interface, last stream.Type) error {
	ctx := context.Background()
	store, err := configmap.Open(ctx, client, "shop", "positions", nil)
	if err != nil {
		return err
	}
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{
		Cluster:  checkpoint.Cluster{UID: "example"}, // usually Connection.Cluster
		Interval: 10 * time.Second,                   // between updates of the ConfigMap
	})
	if err != nil {
		return err
	}
	s, err := stream.New(client, doors, nil)
	if err != nil {
		return err
	}
	for ev, err := range s.With(stream.Run{Checkpoint: tracker}).Events(ctx) {
		if err != nil {
			return err
		}
		if ev.HasObject() {
			fmt.Println(ev.Type, ev.NamespacedName())
		}
		ev.Ack()
		if ev.Type == last {
			break
		}
	}
	return tracker.Close() // commits what has been acked
}
