// Package cache has the names of controller-runtime's cache that its tests use, with our informer as the default.
package cache

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	kcache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/gvrwatch/gvrwatch/stream/informer"
)

type (
	ByObject             = cache.ByObject
	Cache                = cache.Cache
	Config               = cache.Config
	ErrResourceNotCached = cache.ErrResourceNotCached
	Options              = cache.Options
)

const AllNamespaces = cache.AllNamespaces

var (
	BlockUntilSynced            = cache.BlockUntilSynced
	TransformStripManagedFields = cache.TransformStripManagedFields
)

// Made is how many informers of ours there have been.
var Made atomic.Int64

func New(c *rest.Config, o Options) (Cache, error) {
	if o.NewInformer == nil {
		o.NewInformer = func(lw kcache.ListerWatcher, like runtime.Object, resync time.Duration,
			indexers kcache.Indexers) kcache.SharedIndexInformer {
			if Made.Add(1) == 1 {
				println("peers: ours")
			}
			return informer.NewCompact(lw, like, resync, indexers)
		}
	}
	return cache.New(c, o)
}
