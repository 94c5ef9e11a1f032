package informer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// NewCompact returns client-go's informer with a store that keeps each object packed: encoded, as protobuf if its type
// has that, else as JSON, and compressed. It fits the hook of controller-runtime, whose cache then takes a fraction of
// the memory:
//
//	cache.Options{NewInformer: informer.NewCompact}
//
// An object is packed after the transform, once, and unpacked each time it is read: as the type that it had, and equal
// to what it was by equality.Semantic.DeepEqual of k8s.io/apimachinery (nil and empty may take each other's place in
// typed objects). What is read from the store belongs to the caller, who may change it. Handlers share what they
// receive, and must not change it, as with any informer; but the store never sees it if they do.
//
// An object that cannot be packed is kept as it is: if it is not a runtime.Object, if it is unstructured and has values
// that JSON does not keep, or if one of the first 16 of its type was not the same after it was packed and unpacked. A
// read copies it, if it has a DeepCopyObject that does not panic. Of a type that kept its first 16 objects, no other is
// compared: a transform must not set fields that its JSON, or protobuf, lacks.
//
// Without lw it never syncs, and its WatchErrorHandler receives a [*stream.OptionsError].
//
// Each read decodes, which takes about as long as a deep copy or two. That is slow for programs that List everything
// often: see docs/operations.md.
func NewCompact(lw cache.ListerWatcher, example runtime.Object, resync time.Duration,
	indexers cache.Indexers) cache.SharedIndexInformer {
	if lw == nil {
		lw = nowhere{}
	}
	p := newPacker()
	return newCompact(p, indexers, func(packed cache.Indexers) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(pages{lw, p}, example, resync, packed)
	})
}

// nowhere is the source of an informer that was made without one: the WatchErrorHandler receives its error.
type nowhere struct{}

var errNoSource = invalid.New("lw", "", "must not be nil")

func (nowhere) List(metav1.ListOptions) (runtime.Object, error)   { return nil, errNoSource }
func (nowhere) Watch(metav1.ListOptions) (watch.Interface, error) { return nil, errNoSource }

// newCompact makes an informer, with indexers for packed objects, and hides that its objects are packed.
func newCompact(p *packer, indexers cache.Indexers,
	client func(cache.Indexers) cache.SharedIndexInformer) *compactInformer {
	i := &compactInformer{SharedIndexInformer: client(p.indexers(indexers)), packer: p}
	p.store = i.SharedIndexInformer.GetStore()
	p.added(indexers)
	_ = i.SetTransform(nil) // it fails only once the informer has started
	return i
}

// pages is a ListerWatcher that packs the objects of a list in pages as each page arrives: client-go keeps all of them
// until the last one. A list of one page has been in memory as a whole anyway.
type pages struct {
	cache.ListerWatcher
	packer *packer
}

func (s pages) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := cache.ToListerWithContext(s.ListerWatcher).ListWithContext(ctx, o)
	if err != nil {
		return list, err
	}
	about, err := meta.ListAccessor(list)
	if err != nil || about.GetContinue() == "" && o.Continue == "" {
		return list, nil
	}
	page := &metainternalversion.List{}
	page.SetResourceVersion(about.GetResourceVersion())
	page.SetContinue(about.GetContinue())
	page.SetRemainingItemCount(about.GetRemainingItemCount())
	err = meta.EachListItemWithAlloc(list, func(o runtime.Object) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		transformed, err := s.packer.transformed(o)
		if err != nil {
			return err
		}
		if r, isPacked := transformed.(*packed); isPacked {
			page.Items = append(page.Items, r)
			return nil
		}
		i := &item{state: transformed}
		if m, err := meta.Accessor(transformed); err == nil {
			i.name = nameOf(m)
		}
		page.Items = append(page.Items, i)
		return nil
	})
	return page, err
}

func (s pages) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return cache.ToWatcherWithContext(s.ListerWatcher).WatchWithContext(ctx, o)
}

// IsWatchListSemanticsUnSupported is the method by which client-go recognizes a source without streaming lists.
func (s pages) IsWatchListSemanticsUnSupported() bool {
	source, says := s.ListerWatcher.(interface{ IsWatchListSemanticsUnSupported() bool })
	return says && source.IsWatchListSemanticsUnSupported()
}

// compactInformer shows the packed objects of another informer as what they were.
type compactInformer struct {
	cache.SharedIndexInformer
	packer *packer
}

// SetTransform sets a function that is called before an object is packed.
func (i *compactInformer) SetTransform(f cache.TransformFunc) error {
	if err := i.SharedIndexInformer.SetTransform(i.packer.transformed); err != nil {
		return err
	}
	i.packer.setTransform(f)
	return nil
}

func (i *compactInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration,
	error) {
	return i.SharedIndexInformer.AddEventHandler(i.packer.handler(h))
}

func (i *compactInformer) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(i.packer.handler(h), resync)
}

func (i *compactInformer) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(i.packer.handler(h), o)
}

func (i *compactInformer) AddIndexers(added cache.Indexers) error {
	return i.packer.addIndexers(added, i.SharedIndexInformer.AddIndexers)
}

func (i *compactInformer) GetStore() cache.Store { return i.GetIndexer() }

func (i *compactInformer) GetIndexer() cache.Indexer {
	return &compactIndexer{i.SharedIndexInformer.GetIndexer(), i.packer, nil}
}
