// Command metadatainformer has event handlers at informers of client-go's metadata factory.
package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/handlers"
)

func main() { adapter.Main(adapter.Client{Name: "metadatainformer", Module: "k8s.io/client-go"}, run) }

func run(ctx context.Context, j *adapter.Judge) error {
	client, err := metadata.NewForConfig(j.Config)
	if err != nil {
		return err
	}
	f := metadatainformer.NewSharedInformerFactory(client, 0)
	return handlers.Print(ctx, j, func(r schema.GroupVersionResource) cache.SharedIndexInformer {
		return f.ForResource(r).Informer()
	})
}
