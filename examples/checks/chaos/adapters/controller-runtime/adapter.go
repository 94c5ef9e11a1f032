// Command controller-runtime has event handlers at one cache of controller-runtime, with its defaults.
package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/cached"
)

func main() {
	adapter.Main(adapter.Client{Name: "controller-runtime", Module: "sigs.k8s.io/controller-runtime"},
		func(ctx context.Context, j *adapter.Judge) error { return cached.Print(ctx, j, cache.Options{}) })
}
