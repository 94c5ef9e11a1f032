package informer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/compact"
	"github.com/gvrwatch/gvrwatch/internal/guard"
)

// packed is an object in the store and in the queue of a compact informer. It never changes.
//
// It has what client-go asks of objects: namespace and name for the key, and the resourceVersion. It is a
// runtime.Object whose copy is itself, for two detectors of client-go's: that of mutations copies each object, and that
// of inconsistent lists compares what a second list has, by uid.
type packed struct {
	record compact.Record
	format *format
}

func (p *packed) GetObjectMeta() metav1.Object {
	id := p.record.Identity()
	// The name is the key of a cluster-scoped object, which an index may keep for longer than the object.
	return &metav1.ObjectMeta{Namespace: id.Namespace, Name: strings.Clone(id.Name),
		ResourceVersion: id.ResourceVersion,
		UID:             types.UID(p.key()), // none is packed, and names are as good for the order
	}
}

func (p *packed) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (p *packed) DeepCopyObject() runtime.Object   { return p }
func (p *packed) String() string                   { return p.key() } // for logs, which must not have its text
func (p *packed) GoString() string                 { return p.key() }

func (p *packed) key() string { return keyOf(p.record.Name()) }

// keyOf returns the key of an object in client-go's stores.
func keyOf(namespace, name string) string {
	return cache.ObjectName{Namespace: namespace, Name: name}.String()
}

// unpack returns a new object: what was packed, or a copy if obj is not packed.
func unpack(obj any) (any, error) {
	p, isPacked := obj.(*packed)
	if !isPacked {
		return copied(obj), nil
	}
	var o runtime.Object
	err := p.format.codec.With(p.record, func(text []byte) (err error) {
		o, err = p.format.encoding.decode(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("informer: cannot unpack %s: %w", p.key(), guard.Redact(err))
	}
	return o, nil
}

// copied returns a copy, or obj if it has none: if it is no runtime.Object, or has values that its DeepCopyObject
// panics at.
func copied(obj any) (another any) {
	o, isObject := obj.(runtime.Object)
	if !isObject {
		return obj
	}
	defer func() {
		if recover() != nil {
			another = obj
		}
	}()
	return o.DeepCopyObject()
}

// valuesOf packs the values of the first indexes, so that there is no need to unpack the object for them. The last
// entry has no value: its index is the number of indexes that were asked.
func valuesOf(obj any, indexes []index) []compact.Entry {
	var entries []compact.Entry
	for n, i := range indexes {
		values, err := i.values(obj)
		if err != nil {
			return nil // client-go asks again, and panics with the error
		}
		for _, v := range values {
			entries = append(entries, compact.Entry{Index: n, Value: v})
		}
	}
	return append(entries, compact.Entry{Index: len(indexes)})
}

// values returns the values of an index, or false if that was added later.
func (p *packed) values(index int) ([]string, bool) {
	entries := p.record.Entries()
	if len(entries) == 0 || entries[len(entries)-1].Index <= index {
		return nil, false
	}
	var values []string
	for _, e := range entries {
		if e.Index == index {
			// The store may keep a value for longer than the object. It must not keep the record.
			values = append(values, strings.Clone(e.Value))
		}
	}
	return values, true
}

// format is how objects of one Go type are packed, with one apiVersion and kind.
type format struct {
	codec    *compact.Codec
	encoding encoding
	others   []encoding   // to use if this one fails
	checked  atomic.Int32 // objects, at least mustCheck once they are enough
}

// encoding turns objects into texts and back. What is decoded shares no memory with the text.
type encoding interface {
	encode(to []byte, o runtime.Object) ([]byte, error)
	decode(text []byte) (runtime.Object, error)
}

// formatKey is what objects of one format have in common.
type formatKey struct {
	of   reflect.Type // of a pointer to a struct
	kind schema.GroupVersionKind
}

// encodings returns what to try, in this order.
func (k formatKey) encodings() []encoding {
	if k.of == reflect.TypeFor[*unstructured.Unstructured]() {
		return []encoding{asUnstructured{}}
	}
	encodings := []encoding{asJSON{k.of.Elem()}}
	if hasProtobuf(k.of) {
		return []encoding{asProtobuf{k.of.Elem(), k.kind}, encodings[0]}
	}
	return encodings
}

// mustCheck is how many objects of a format are unpacked again, to see that they are the same.
const mustCheck = 16

// keeps reports whether text is decoded to what o is.
func (f *format) keeps(o runtime.Object, text []byte) bool {
	decoded, err := f.encoding.decode(text)
	return err == nil && isSame(o, decoded)
}

// isSame compares as equality.Semantic does, and unexported fields, of which that panics, as they are: those of a
// time.Time for one, and of the messages in Istio's types.
func isSame(a, b runtime.Object) (same bool) {
	defer func() {
		if recover() != nil {
			same = reflect.DeepEqual(a, b)
		}
	}()
	return equality.Semantic.DeepEqual(a, b)
}

// labeled is an encoding that finds the labels in a text for less than it takes to decode that.
type labeled interface{ labels(text []byte) labels.Set }

// selects reports whether a selector may match obj: without decoding it, if it is packed so that its labels are found.
func selects(s labels.Selector, obj any) bool {
	p, isPacked := obj.(*packed)
	if !isPacked {
		return true
	}
	l, isLabeled := p.format.encoding.(labeled)
	if !isLabeled {
		return true
	}
	var found labels.Set
	err := p.format.codec.With(p.record, func(text []byte) error {
		found = l.labels(text)
		return nil
	})
	return err != nil || s.Matches(found)
}

// asUnstructured is JSON that keeps the difference between integers and floats.
type asUnstructured struct{}

func (asUnstructured) labels(text []byte) labels.Set { return decode.NewMeta(text).GetLabels() }

func (asUnstructured) encode(to []byte, o runtime.Object) ([]byte, error) {
	return compact.AppendJSON(to, o.(*unstructured.Unstructured).Object)
}

func (asUnstructured) decode(text []byte) (runtime.Object, error) { return decode.Decode(text) }

// asJSON is the JSON of a Go type.
type asJSON struct{ of reflect.Type }

func (asJSON) encode(to []byte, o runtime.Object) ([]byte, error) {
	b := bytes.NewBuffer(to)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false) // which would change raw JSON within the object
	err := e.Encode(o)
	return b.Bytes(), err
}

func (j asJSON) decode(text []byte) (runtime.Object, error) {
	o := reflect.New(j.of).Interface().(runtime.Object)
	return o, utiljson.Unmarshal(bytes.Clone(text), o) // an UnmarshalJSON may keep what it gets
}

// protobuf is what the generated types of Kubernetes have.
type protobuf interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
	Unmarshal([]byte) error
}

// hasProtobuf reports whether a type has protobuf, and not only one of the types that it embeds: then Go gives it the
// methods of that one, which know nothing of its other fields. A Kubernetes type embeds TypeMeta and ObjectMeta, which
// both have these methods, so that they are its own.
func hasProtobuf(of reflect.Type) bool {
	has := reflect.TypeFor[protobuf]()
	if !of.Implements(has) {
		return false
	}
	embedded := 0
	for i := range of.Elem().NumField() {
		f := of.Elem().Field(i)
		if f.Anonymous && (f.Type.Implements(has) || reflect.PointerTo(f.Type).Implements(has)) {
			embedded++
		}
	}
	return embedded != 1
}

// asProtobuf is protobuf. It has no apiVersion and kind, so the format has them.
type asProtobuf struct {
	of   reflect.Type
	kind schema.GroupVersionKind
}

func (asProtobuf) encode(to []byte, o runtime.Object) ([]byte, error) {
	p := o.(protobuf)
	size := p.Size()
	to = slices.Grow(to, size)[:size]
	n, err := p.MarshalToSizedBuffer(to)
	return to[size-n:], err // it writes the end of the buffer
}

func (p asProtobuf) decode(text []byte) (runtime.Object, error) {
	o := reflect.New(p.of).Interface().(runtime.Object)
	o.GetObjectKind().SetGroupVersionKind(p.kind)
	return o, o.(protobuf).Unmarshal(text)
}
