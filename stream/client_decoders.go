package stream

import (
	"bytes"
	"io"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializerstreaming "k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"

	"github.com/gvrwatch/gvrwatch/internal/decode"
)

// decoders lends Decoders: a watch that is silent has none. What a Decoder does
// not take, client-go's own gets: then it is its result that counts, and its
// error.
type decoders struct {
	pool  sync.Pool
	drop  [][]string
	stock runtime.SerializerInfo // client-go's for JSON
}

func newDecoders(o decode.Options, stock runtime.SerializerInfo) *decoders {
	d := &decoders{drop: o.Drop, stock: stock}
	d.pool.New = func() any { return decode.New(o) }
	return d
}

func (d *decoders) get() *decode.Decoder  { return d.pool.Get().(*decode.Decoder) }
func (d *decoders) put(x *decode.Decoder) { d.pool.Put(x) }

// fallBack has client-go decode the first frame of data, after which then comes.
func (d *decoders) fallBack(data []byte, then error) (watch.Event, error) {
	body := io.NopCloser(io.MultiReader(bytes.NewReader(data), failing{then}))
	s := d.stock.StreamSerializer
	t, o, err := restwatch.NewDecoder(serializerstreaming.NewDecoder(s.Framer.NewFrameReader(body), s.Serializer), d.stock.Serializer).Decode()
	if err != nil {
		return watch.Event{}, err
	}
	if u, ok := o.(*unstructured.Unstructured); ok && t != watch.Bookmark {
		d.prune(u)
	}
	return watch.Event{Type: t, Object: o}, nil
}

func (d *decoders) prune(u *unstructured.Unstructured) {
	for _, path := range d.drop {
		unstructured.RemoveNestedField(u.Object, path...)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// listSerializer is client-go's serializer, for the lists that it gets: what a Decoder
// did not take.
type listSerializer struct {
	runtime.Serializer
	from *decoders
}

func (s listSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	o, gvk, err := s.Serializer.Decode(data, defaults, into)
	if list, ok := into.(*unstructured.UnstructuredList); ok {
		for i := range list.Items {
			s.from.prune(&list.Items[i])
		}
	}
	return o, gvk, err
}
