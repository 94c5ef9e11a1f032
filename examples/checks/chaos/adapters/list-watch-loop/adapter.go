// Command list-watch-loop lists, then watches. When the watch ends it begins again, as most loops in programs do.
package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/loop"
)

func main() { adapter.Main(adapter.Client{Name: "list-watch loop", Module: "k8s.io/client-go"}, run) }

func run(ctx context.Context, j *adapter.Judge) error {
	return loop.ListAndWatch(ctx, j, func(w loop.Watched, version string) (watch.Interface, error) {
		return w.Watch(ctx, metav1.ListOptions{ResourceVersion: version})
	})
}
