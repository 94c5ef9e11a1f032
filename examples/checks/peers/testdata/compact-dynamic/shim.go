package dynamicinformer

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/stream/informer"
)

func newCompact(lw cache.ListerWatcher, like runtime.Object,
	o cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
	println("peers: ours")
	return informer.NewCompact(lw, like, o.ResyncPeriod, o.Indexers)
}
