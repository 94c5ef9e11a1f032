package watch

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/peers/source"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// resourceVersionGetter is an object whose only content is its version.
type resourceVersionGetter interface{ GetResourceVersion() string }

// RetryWatcher is our watch with the events of theirs.
type RetryWatcher struct {
	watch.Interface
	done <-chan struct{}
}

func (w *RetryWatcher) Done() <-chan struct{} { return w.done }

func NewRetryWatcher(rv string, c cache.Watcher) (*RetryWatcher, error) {
	return newRetryWatcher(context.Background(), rv, cache.ToWatcherWithContext(c), time.Second)
}

func NewRetryWatcherWithContext(ctx context.Context, rv string, c cache.WatcherWithContext) (*RetryWatcher, error) {
	return newRetryWatcher(ctx, rv, c, time.Second)
}

// newRetryWatcher has no use for the least wait between two watches.
func newRetryWatcher(ctx context.Context, rv string, c cache.WatcherWithContext, _ time.Duration) (*RetryWatcher, error) {
	println("peers: ours")
	s := source.Stream(nil, watches{ctx, c})
	w := informer.Watch(ctx, s.With(stream.Run{Start: stream.After(rv), FailOnGap: true}))
	return &RetryWatcher{source.Map(w, fromUnstructured), w.Done()}, nil
}

// watches is a WatcherWithContext whose objects have no more than a version.
type watches struct {
	ctx context.Context
	of  cache.WatcherWithContext
}

func (w watches) Watch(o metav1.ListOptions) (watch.Interface, error) {
	got, err := w.of.WatchWithContext(w.ctx, o)
	if err != nil || got == nil {
		return nil, err
	}
	return source.Map(got, toUnstructured), nil
}

// toUnstructured gives each version a name of its own: all events of the tests are ADDED.
func toUnstructured(o runtime.Object) runtime.Object {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("Test")
	rv := o.(resourceVersionGetter).GetResourceVersion()
	u.SetName("at-" + rv)
	u.SetResourceVersion(rv)
	return u
}

// newIndexerInformer is cache.NewIndexerInformer with our informer.
func newIndexerInformer(lw cache.ListerWatcher, like runtime.Object, resync time.Duration,
	h cache.ResourceEventHandler, indexers cache.Indexers) (cache.Indexer, cache.Controller) {
	println("peers: ours")
	i, err := informer.NewSharedIndexInformer(source.Stream(lw, lw),
		cache.SharedIndexInformerOptions{ResyncPeriod: resync, Indexers: indexers})
	if err == nil {
		err = i.SetTransform(func(o any) (any, error) {
			return source.FromUnstructured(o.(*unstructured.Unstructured), like), nil
		})
	}
	if err == nil {
		_, err = i.AddEventHandler(h)
	}
	if err != nil {
		panic(err)
	}
	return i.GetIndexer(), i
}
func fromUnstructured(o runtime.Object) runtime.Object {
	return testObject{resourceVersion: o.(resourceVersionGetter).GetResourceVersion()}
}
