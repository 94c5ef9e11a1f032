// Command informer-door is dynamicinformer with the factory of package factory, whose informers have Streams. Handlers
// receive no GAP, so it makes no claim.
package main

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/handlers"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
)

func main() {
	adapter.Main(adapter.Client{Name: "informer-door", Module: "github.com/gvrwatch/gvrwatch"}, run)
}

func run(ctx context.Context, j *adapter.Judge) error {
	client, err := stream.NewClient(j.Config, nil)
	if err != nil {
		return err
	}
	f, err := factory.New(client, 0, nil)
	if err != nil {
		return err
	}
	return handlers.Print(ctx, j, func(r schema.GroupVersionResource) cache.SharedIndexInformer {
		return f.ForResource(r).Informer()
	})
}
