package cache_test

import (
	"github.com/gvrwatch/gvrwatch/peers/cache"
	"github.com/gvrwatch/gvrwatch/peers/informer"
	"github.com/gvrwatch/gvrwatch/peers/source"
)

func init() {
	cache.OursInformer = func(lw cache.ListerWatcher, o cache.SharedIndexInformerOptions) cache.SharedIndexInformer {
		println("peers: ours")
		i, err := informer.NewSharedIndexInformer(source.Stream(lw, lw), o)
		if err != nil {
			panic(err)
		}
		return i
	}
	cache.OursListerWatcher = func(lw cache.ListerWatcher) cache.ListerWatcherWithContext {
		println("peers: ours")
		return informer.NewListerWatcher(source.Stream(lw, lw))
	}
}
