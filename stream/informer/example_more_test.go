package informer_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A ListerWatcher works wherever client-go takes one.
func ExampleNewListerWatcher() {
	widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	srv.Put(widgets, "shop", "door")

	s, err := stream.New(srv.Client(), widgets, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hasDoor := func(store cache.Store) (bool, error) {
		_, exists, err := store.GetByKey("shop/door")
		return exists, err
	}
	_, err = watchtools.UntilWithSync(ctx, informer.NewListerWatcher(s), &unstructured.Unstructured{}, hasDoor)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleNewSharedIndexInformer() {
	widgets := gvr.Resource{Kind: "Widget", Namespaced: true, Verbs: []string{"list", "watch"}}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	srv.Put(widgets, "shop", "door")

	s, err := stream.New(srv.Client(), widgets, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	i, err := informer.NewSharedIndexInformer(s, cache.SharedIndexInformerOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	added := make(chan string)
	_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { added <- obj.(*unstructured.Unstructured).GetName() },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		i.Run(stop)
	}()
	fmt.Println(<-added)
	close(stop)
	<-done
	// Output: door
}
