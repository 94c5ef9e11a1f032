package gvrwatch_test

import (
	"context"
	"fmt"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// newCluster returns a server that serves doors, in the place of a cluster.
func newCluster() (*streamtest.Server, gvr.Resource) {
	doors := gvr.Resource{
		Kind: "Door", Namespaced: true, Verbs: []string{"list", "watch"}, ShortNames: []string{"dr"},
	}
	doors.Group, doors.Version, doors.Resource = "example.com", "v1", "doors"
	return streamtest.NewServer(doors), doors
}

// A program prints what exists and what happens, until a door is deleted.
func Example() {
	srv, doors := newCluster()
	defer srv.Close()
	srv.Put(doors, "shop", "front", "labels.state=shut")

	// With nil in the place of srv.Config() it would watch the cluster of your kubeconfig.
	for ev, err := range gvrwatch.Watch(context.Background(), srv.Config(), "dr", nil) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(ev)
		switch ev.Type {
		case stream.Synced: // everything that exists has been delivered
			srv.Put(doors, "shop", "front", "labels.state=open")
		case stream.Modified:
			fmt.Println(ev.Object.GetName(), "is", ev.Object.GetLabels()["state"])
			_, _ = srv.Delete(doors, "shop", "front")
		case stream.Deleted:
			return
		}
	}
	// Output:
	// ADDED shop/front@2
	// SYNCED @2
	// MODIFIED shop/front@3
	// front is open
	// DELETED shop/front@4
}
