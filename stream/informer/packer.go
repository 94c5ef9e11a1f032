package informer

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/internal/compact"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// packer packs the objects of one informer, and unpacks them for its handlers.
type packer struct {
	store  cache.Store // of packed objects
	recent recent
	adding sync.Mutex // held while indexers are added

	mu        sync.Mutex // guards what follows; not held while the caller's code runs
	transform cache.TransformFunc
	indexes   []index // only grows
	formats   map[formatKey]*format
	codec     *compact.Codec
}

// index is an indexer.
type index struct {
	name   string
	values cache.IndexFunc
}

func newPacker() *packer {
	return &packer{formats: map[formatKey]*format{}, codec: compact.NewCodec(true)}
}

func (p *packer) setTransform(f cache.TransformFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.transform = f
}

// transformed is the TransformFunc of the informer. client-go calls it for each object that enters the queue, and a
// second time for those of a streamed list: then they are packed. The items of pages have been transformed.
func (p *packer) transformed(obj any) (any, error) {
	switch o := obj.(type) {
	case *packed:
		return o, nil
	case *item:
		return o.state, nil
	}
	p.mu.Lock()
	transform := p.transform
	p.mu.Unlock()
	if transform != nil {
		var err error
		if obj, err = transform(obj); err != nil {
			return obj, err
		}
	}
	return p.pack(obj), nil
}

// texts hold what is packed until it is compressed.
var texts = sync.Pool{New: func() any { return new([]byte) }}

// maxText is the size of the largest buffer that is kept.
const maxText = 1 << 20

// pack returns a packed object, or obj if it cannot be packed.
func (p *packer) pack(obj any) any {
	o, isObject := obj.(runtime.Object)
	of := reflect.ValueOf(obj)
	if !isObject || of.Kind() != reflect.Pointer || of.IsNil() || of.Type().Elem().Kind() != reflect.Struct {
		return obj
	}
	m, err := meta.Accessor(obj)
	if _, isPacked := obj.(*packed); isPacked || err != nil {
		return obj
	}
	text := texts.Get().(*[]byte)
	f := p.encode(formatKey{of.Type(), o.GetObjectKind().GroupVersionKind()}, o, text)
	if f != nil {
		p.mu.Lock()
		indexes := p.indexes
		p.mu.Unlock()
		entries := valuesOf(obj, indexes)
		id := objects.Version{ResourceVersion: m.GetResourceVersion()}
		id.Namespace, id.Name = m.GetNamespace(), m.GetName()
		_, isKnown, _ := p.store.GetByKey(keyOf(id.Namespace, id.Name))
		p.mu.Lock()
		encoding, payload := p.codec.Encode(*text, !isKnown)
		r := &packed{compact.Pack(id, entries, encoding, payload), f}
		p.mu.Unlock()
		p.recent.put(r, obj)
		obj = r
	}
	if cap(*text) <= maxText {
		texts.Put(text)
	}
	return obj
}

// encode writes o to text in the format for its type, and returns that, or nil if there is none.
func (p *packer) encode(k formatKey, o runtime.Object, text *[]byte) *format {
	for f := p.format(k, nil); f != nil; f = p.format(k, f) {
		var err error
		if *text, err = f.encoding.encode((*text)[:0], o); err != nil {
			return nil // this one object cannot be encoded
		}
		if f.checked.Load() >= mustCheck || f.checked.Add(1) > mustCheck || f.keeps(o, *text) {
			return f
		}
	}
	return nil
}

// format returns the format for objects of one kind, or nil if there is none. It never returns one again that has
// failed.
func (p *packer) format(k formatKey, failed *format) *format {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, isKnown := p.formats[k]
	switch {
	case !isKnown:
		f = &format{codec: p.codec, encoding: k.encodings()[0], others: k.encodings()[1:]}
	case failed == nil || f != failed:
		return f
	case len(f.others) == 0:
		f = nil
	default:
		f = &format{codec: p.codec, encoding: f.others[0], others: f.others[1:]}
	}
	p.formats[k] = f
	return f
}

// indexers returns indexers for packed objects, for which added is called once the store has them.
func (p *packer) indexers(given cache.Indexers) cache.Indexers {
	p.mu.Lock()
	defer p.mu.Unlock()
	wrapped := cache.Indexers{}
	for i, name := range slices.Sorted(maps.Keys(given)) {
		wrapped[name] = p.wrap(len(p.indexes)+i, given[name])
	}
	return wrapped
}

func (p *packer) added(given cache.Indexers) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		p.indexes = append(p.indexes, index{name, given[name]})
	}
}

// addIndexers adds indexers with a function of the informer, which may refuse them.
func (p *packer) addIndexers(given cache.Indexers, add func(cache.Indexers) error) error {
	p.adding.Lock()
	defer p.adding.Unlock()
	if err := add(p.indexers(given)); err != nil {
		return err
	}
	p.added(given)
	return nil
}

// all returns the indexers that were added.
func (p *packer) all() cache.Indexers {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := cache.Indexers{}
	for _, i := range p.indexes {
		all[i.name] = i.values
	}
	return all
}

// wrap returns the n-th index for packed objects, and for those that the caller asks with.
func (p *packer) wrap(n int, values cache.IndexFunc) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		r, isPacked := obj.(*packed)
		if !isPacked {
			return values(obj)
		}
		if known, ok := r.values(n); ok {
			return known, nil
		}
		o, err := unpack(r)
		if err != nil {
			utilruntime.HandleError(err)
			return nil, nil // of an error client-go panics
		}
		found, err := values(o)
		cloned := make([]string, len(found)) // found may be the caller's
		for i, v := range found {
			cloned[i] = strings.Clone(v) // the store must not keep the text of o
		}
		return cloned, err
	}
}
