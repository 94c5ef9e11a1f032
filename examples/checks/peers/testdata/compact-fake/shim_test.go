package internal

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/stream/informer"
)

func newCompact(lw cache.ListerWatcher, like runtime.Object, resync time.Duration,
	indexers cache.Indexers) cache.SharedIndexInformer {
	println("peers: ours")
	return informer.NewCompact(lw, like, resync, indexers)
}
