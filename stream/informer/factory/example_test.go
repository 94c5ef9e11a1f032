package factory_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var doors = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "doors"},
	Kind:                 "Door", Namespaced: true, Verbs: []string{"list", "watch"},
}

// New takes the place of dynamicinformer.NewFilteredDynamicSharedInformerFactory.
func Example() {
	srv := streamtest.NewServer(doors) // usually a cluster
	defer srv.Close()
	srv.Put(doors, "shop", "front")
	srv.Put(doors, "home", "back")
	if err := listOnce(srv.Client()); err != nil {
		fmt.Println(err)
	}
	// Output: front
}

// A program creates its client with stream.NewClient.
func listOnce(client dynamic.Interface) error {
	informers, err := factory.New(client, 0, &stream.Options{Namespaces: []string{"shop"}})
	if err != nil {
		return err
	}
	lister := informers.ForResource(doors.GroupVersionResource).Lister()
	stop := make(chan struct{})
	informers.Start(stop)
	defer informers.Shutdown()
	defer close(stop)
	informers.WaitForCacheSync(stop)
	objects, err := lister.List(labels.Everything())
	for _, o := range objects {
		fmt.Println(o.(*unstructured.Unstructured).GetName())
	}
	return err
}
