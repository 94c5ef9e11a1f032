// Command controller-runtime-compact is controller-runtime with the compact informers of package informer.
package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/cached"
	"github.com/gvrwatch/gvrwatch/stream/informer"
)

func main() {
	adapter.Main(
		adapter.Client{Name: "controller-runtime, compact", Module: "sigs.k8s.io/controller-runtime"},
		func(ctx context.Context, j *adapter.Judge) error {
			return cached.Print(ctx, j, cache.Options{NewInformer: informer.NewCompact})
		})
}
