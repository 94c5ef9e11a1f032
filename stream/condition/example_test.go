package condition_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var doors = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"},
	Kind:                 "Door", Namespaced: true, Verbs: []string{"list", "watch"},
}

// Wait until two objects meet a condition at the same moment, for at most a minute. One does not exist at first.
func Example() {
	srv := streamtest.NewServer(doors) // usually a cluster
	defer srv.Close()
	srv.Put(doors, "shop", "front", "status.phase=Open")
	time.AfterFunc(50*time.Millisecond, func() { srv.Put(doors, "shop", "back", "status.phase=Open") })
	fmt.Println("open:", waitUntilOpen(srv.Client(), "front", "back"))
	// Output: open: <nil>
}

func waitUntilOpen(client dynamic.Interface, names ...string) error {
	s, err := stream.New(client, doors, &stream.Options{Namespaces: []string{"shop"}})
	if err != nil {
		return err
	}
	open := condition.MustParse("jsonpath={.status.phase}=Open") // or condition=Ready, create, delete
	var targets []condition.Target
	for _, name := range names {
		targets = append(targets, condition.Target{For: open, Namespace: "shop", Name: name})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return condition.Wait(ctx, s, targets...)
}
