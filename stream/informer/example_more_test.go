package informer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// A compact informer takes the place of cache.NewSharedIndexInformer. The cache of controller-runtime takes it in one
// line:
//
//	cache.Options{NewInformer: informer.NewCompact}
func ExampleNewCompact() {
	i := informer.NewCompact(&cache.ListWatch{}, &corev1.ConfigMap{}, 0, nil)
	err := i.GetStore().Add(&corev1.ConfigMap{ // in a program, Run does this
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}, Data: map[string]string{"color": "red"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		o, _, _ := i.GetStore().GetByKey("shop/settings")
		settings := o.(*corev1.ConfigMap)
		fmt.Println(settings.Data["color"])
		settings.Data["color"] = "blue" // it belongs to the caller
	}
	// Output:
	// red
	// red
}
