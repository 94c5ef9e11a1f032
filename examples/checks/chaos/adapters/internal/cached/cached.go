// Package cached prints what event handlers of controller-runtime's cache receive.
package cached

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/handlers"
)

// Print runs one cache until ctx ends, as a manager does, with a handler for unstructured objects of each resource.
func Print(ctx context.Context, j *adapter.Judge, o cache.Options) error {
	log.SetLogger(klog.Background())
	client, err := rest.HTTPClientFor(j.Config)
	if err != nil {
		return err
	}
	o.HTTPClient = client
	if o.Mapper, err = apiutil.NewDynamicRESTMapper(j.Config, client); err != nil {
		return err
	}
	objects, err := cache.New(j.Config, o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var waiting sync.WaitGroup
	defer func() { stop(); waiting.Wait() }()
	for _, r := range j.Resources {
		kind, err := o.Mapper.KindFor(r)
		if err != nil {
			return err
		}
		example := &unstructured.Unstructured{}
		example.SetGroupVersionKind(kind)
		informer, err := objects.GetInformer(ctx, example)
		if err != nil {
			return err
		}
		synced, err := handlers.Add(j, r, informer)
		if err != nil {
			return err
		}
		waiting.Go(func() { synced(ctx) })
	}
	return objects.Start(ctx)
}
