// Command RetryWatcher lists, then watches with client-go's RetryWatcher. When that ends it begins again.
package main

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/adapter"
	"github.com/gvrwatch/gvrwatch/examples/checks/chaos/adapters/internal/loop"
)

func main() { adapter.Main(adapter.Client{Name: "RetryWatcher", Module: "k8s.io/client-go"}, run) }

func run(ctx context.Context, j *adapter.Judge) error {
	return loop.ListAndWatch(ctx, j, func(w loop.Watched, version string) (watch.Interface, error) {
		return watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return w.Watch(ctx, o)
			},
		})
	})
}
