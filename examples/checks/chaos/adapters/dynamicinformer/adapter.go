// Command dynamicinformer has event handlers at informers of client-go's dynamic factory.
package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/handlers"
)

func main() { adapter.Main(adapter.Client{Name: "dynamicinformer", Module: "k8s.io/client-go"}, run) }

func run(ctx context.Context, j *adapter.Judge) error {
	client, err := dynamic.NewForConfig(j.Config)
	if err != nil {
		return err
	}
	f := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	return handlers.Print(ctx, j, func(r schema.GroupVersionResource) cache.SharedIndexInformer {
		return f.ForResource(r).Informer()
	})
}
