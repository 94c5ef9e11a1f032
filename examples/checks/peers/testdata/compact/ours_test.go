package cache_test

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	cache "github.com/gvrwatch/gvrwatch/peers/compact"
	"github.com/gvrwatch/gvrwatch/peers/informer"
)

func init() {
	cache.Ours = func(lw cache.ListerWatcher, like runtime.Object, resync time.Duration) cache.SharedIndexInformer {
		println("peers: ours")
		return informer.NewCompact(lw, like, resync, cache.Indexers{})
	}
}
