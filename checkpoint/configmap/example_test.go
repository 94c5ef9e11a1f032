package configmap_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/configmap"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func Example() {
	ctx := context.Background()
	client := streamtest.NewServer(gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Kind:                 "ConfigMap", Namespaced: true,
	}).Client() // usually dynamic.NewForConfig(rest.InClusterConfig())

	store, err := configmap.Open(ctx, client, "shop", "relay-checkpoints", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{
		Cluster:  checkpoint.Cluster{UID: "1d5f..."}, // usually from stream.ClusterOf
		Interval: 10 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tracker.Close() }()
	// Give the tracker to streams: stream.Options.Checkpoint.
	fmt.Println(store)
	// Output: ConfigMap shop/relay-checkpoints
}
