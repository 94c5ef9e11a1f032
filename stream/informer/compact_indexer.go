package informer

import (
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// compactIndexer shows the packed objects of another Indexer as what they were. Each call returns new objects.
type compactIndexer struct {
	cache.Indexer
	packer   *packer
	selector labels.Selector // of Selecting, or nil
}

// Selecting returns an indexer that need not return what a selector does not match, and so does not unpack it. The
// listers of package factory use it: an Indexer cannot be asked for labels.
func (i *compactIndexer) Selecting(s labels.Selector) cache.Indexer {
	return &compactIndexer{i.Indexer, i.packer, s}
}

func (i *compactIndexer) Add(obj any) error    { return i.Indexer.Add(i.packer.pack(obj)) }
func (i *compactIndexer) Update(obj any) error { return i.Indexer.Update(i.packer.pack(obj)) }

func (i *compactIndexer) Replace(objects []any, version string) error {
	packed := make([]any, len(objects))
	for n, o := range objects {
		packed[n] = i.packer.pack(o)
	}
	return i.Indexer.Replace(packed, version)
}

func (i *compactIndexer) Get(obj any) (item any, exists bool, err error) {
	return i.unpackedOne(i.Indexer.Get(obj))
}

func (i *compactIndexer) GetByKey(key string) (item any, exists bool, err error) {
	return i.unpackedOne(i.Indexer.GetByKey(key))
}

func (i *compactIndexer) unpackedOne(item any, exists bool, err error) (any, bool, error) {
	if err != nil || !exists {
		return item, exists, err
	}
	if item, err = unpack(item); err != nil {
		return nil, false, err
	}
	return item, true, nil
}

func (i *compactIndexer) List() []any { return i.unpackAll(i.Indexer.List()) }

func (i *compactIndexer) Index(name string, obj any) ([]any, error) {
	items, err := i.Indexer.Index(name, obj)
	return i.unpackAll(items), err
}

func (i *compactIndexer) ByIndex(name, value string) ([]any, error) {
	items, err := i.Indexer.ByIndex(name, value)
	return i.unpackAll(items), err
}

// unpackAll unpacks items in their place. What cannot be unpacked is reported and left out, because List has no error.
func (i *compactIndexer) unpackAll(items []any) []any {
	unpacked := items[:0]
	for _, item := range items {
		if i.selector != nil && !selects(i.selector, item) {
			continue
		}
		o, err := unpack(item)
		if err != nil {
			utilruntime.HandleError(err)
			continue
		}
		unpacked = append(unpacked, o)
	}
	return unpacked
}

// GetIndexers returns the functions that were added, for objects that are not packed.
func (i *compactIndexer) GetIndexers() cache.Indexers { return i.packer.all() }

func (i *compactIndexer) AddIndexers(added cache.Indexers) error {
	return i.packer.addIndexers(added, i.Indexer.AddIndexers)
}
