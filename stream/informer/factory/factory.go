package factory

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/dynamiclister"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// anyResource stands for one, to check the Options.
var anyResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

// New returns a factory of informers with the semantics of client-go's, each fed by a Stream of its own. resync is the
// default resync period; zero means none. opts are the Options of all Streams and may be nil: what WithTweakListOptions
// and a namespace do for client-go's factory, Namespaces and the selectors do here. Create c with stream.NewClient.
// The informers have the Options of: informer.Compact() keeps their objects packed.
//
// ForResource makes no request and returns an informer for any name. If stream.New refuses the resource, the
// informer never syncs, and its WatchErrorHandler receives the error. The informer of a type
// that the server does not serve syncs once it does, with client-go's waits of up to a minute.
//
// New returns an [*stream.OptionsError] if c is nil, if resync is negative, or if an option is invalid.
func New(c dynamic.Interface, resync time.Duration, opts *stream.Options,
	of ...informer.Option) (dynamicinformer.DynamicSharedInformerFactory, error) {
	if err := invalid.Negative("resync", resync); err != nil {
		return nil, err
	}
	f := &factory{client: c, resync: resync, of: slices.Clone(of),
		informers: map[schema.GroupVersionResource]*resourceInformer{}}
	if opts != nil {
		f.options = *opts
		f.options.Namespaces = slices.Clone(opts.Namespaces)
	}
	if _, err := f.newInformer(anyResource); err != nil {
		return nil, err
	}
	return f, nil
}

// factory implements dynamicinformer.DynamicSharedInformerFactory.
type factory struct {
	client  dynamic.Interface
	resync  time.Duration
	options stream.Options
	of      []informer.Option
	running sync.WaitGroup // counts the informers that run

	mu           sync.Mutex
	informers    map[schema.GroupVersionResource]*resourceInformer
	shuttingDown bool
}

// resourceInformer implements informers.GenericInformer.
type resourceInformer struct {
	informer cache.SharedIndexInformer
	resource schema.GroupVersionResource
	started  bool // guarded by factory.mu
}

func (i *resourceInformer) Informer() cache.SharedIndexInformer { return i.informer }

func (i *resourceInformer) Lister() cache.GenericLister {
	return lister{listerOf(i.informer.GetIndexer(), i.resource), i}
}

func listerOf(indexer cache.Indexer, r schema.GroupVersionResource) cache.GenericLister {
	return dynamiclister.NewRuntimeObjectShim(dynamiclister.New(indexer, r))
}

// selecting returns a lister for one selector: a compact informer need not unpack what that does not match.
func (i *resourceInformer) selecting(s labels.Selector) cache.GenericLister {
	indexer := i.informer.GetIndexer()
	if c, isCompact := indexer.(interface {
		Selecting(labels.Selector) cache.Indexer
	}); isCompact {
		indexer = c.Selecting(s)
	}
	return listerOf(indexer, i.resource)
}

// lister is client-go's, but for List.
type lister struct {
	cache.GenericLister
	informer *resourceInformer
}

func (l lister) List(s labels.Selector) ([]runtime.Object, error) {
	return l.informer.selecting(s).List(s)
}

func (l lister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	return namespaceLister{l.GenericLister.ByNamespace(namespace), l.informer, namespace}
}

// namespaceLister is client-go's, but for List.
type namespaceLister struct {
	cache.GenericNamespaceLister
	informer  *resourceInformer
	namespace string
}

func (l namespaceLister) List(s labels.Selector) ([]runtime.Object, error) {
	return l.informer.selecting(s).ByNamespace(l.namespace).List(s)
}

// ForResource returns the informer of a resource, always the same one.
func (f *factory) ForResource(r schema.GroupVersionResource) informers.GenericInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.informers[r]; i != nil {
		return i
	}
	fed, err := f.newInformer(r)
	if err != nil {
		fed = cache.NewSharedIndexInformerWithOptions(refused{err}, &unstructured.Unstructured{}, f.informerOptions(r))
	}
	i := &resourceInformer{informer: fed, resource: r}
	f.informers[r] = i
	return i
}

// newInformer returns an informer, or the error with which the resource or the options are refused.
func (f *factory) newInformer(r schema.GroupVersionResource) (cache.SharedIndexInformer, error) {
	// Whether it is namespaced is unknown without discovery. If it is said to be, a Stream refuses objects without a
	// namespace.
	namespaced := len(f.options.Namespaces) > 0
	s, err := stream.New(f.client, gvr.Resource{GroupVersionResource: r, Namespaced: namespaced}, &f.options)
	if err != nil {
		return nil, err
	}
	return informer.NewSharedIndexInformer(s, f.informerOptions(r), f.of...)
}

func (f *factory) informerOptions(r schema.GroupVersionResource) cache.SharedIndexInformerOptions {
	return cache.SharedIndexInformerOptions{
		ResyncPeriod:      f.resync,
		Indexers:          cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		ObjectDescription: r.String(),
	}
}

// refused is the source of an informer without a Stream: the error of every List and Watch.
type refused struct{ err error }

func (r refused) List(metav1.ListOptions) (runtime.Object, error)   { return nil, r.err }
func (r refused) Watch(metav1.ListOptions) (watch.Interface, error) { return nil, r.err }

// Start runs each informer that does not run yet until stop is closed. After Shutdown it does nothing.
func (f *factory) Start(stop <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shuttingDown {
		return
	}
	for _, i := range f.informers {
		if !i.started {
			i.started = true
			f.running.Go(func() { i.informer.Run(stop) })
		}
	}
}

// WaitForCacheSync waits until all started informers have synced, or stop is closed.
func (f *factory) WaitForCacheSync(stop <-chan struct{}) map[schema.GroupVersionResource]bool {
	synced := map[schema.GroupVersionResource]bool{}
	for r, i := range f.startedInformers() {
		synced[r] = cache.WaitForCacheSync(stop, i.HasSynced)
	}
	return synced
}

func (f *factory) startedInformers() map[schema.GroupVersionResource]cache.SharedIndexInformer {
	f.mu.Lock()
	defer f.mu.Unlock()
	started := map[schema.GroupVersionResource]cache.SharedIndexInformer{}
	for r, i := range f.informers {
		if i.started {
			started[r] = i.informer
		}
	}
	return started
}

// Shutdown prevents later Starts, and waits for all informers. Their stop channels must be closed.
func (f *factory) Shutdown() {
	defer f.running.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shuttingDown = true
}
