package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/compact"
	"github.com/gvrwatch/gvrwatch/internal/guard"
	"github.com/gvrwatch/gvrwatch/internal/typed"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Object is one state of an object in a Store. It is a small value that never changes: what happens to the object later
// is another Object. The zero Object is no object. Its methods may be called from any goroutine.
type Object struct {
	record compact.Record
	codec  *compact.Codec
}

var errNoObject = errors.New("store: the zero Object has no JSON")

// Namespace returns the namespace of the object, which is empty if its resource is cluster-scoped.
func (o Object) Namespace() string {
	namespace, _ := o.record.Name()
	return namespace
}

// Name returns the name of the object.
func (o Object) Name() string {
	_, name := o.record.Name()
	return name
}

// UID returns the uid of the object.
func (o Object) UID() types.UID {
	id := o.record.Identity()
	return id.UID
}

// ResourceVersion returns the resourceVersion of the object, which is empty if the server sent none.
func (o Object) ResourceVersion() string {
	id := o.record.Identity()
	return id.ResourceVersion
}

// JSON returns a new copy of the object as JSON. It returns an error for the zero Object.
func (o Object) JSON() (json.RawMessage, error) {
	if o.codec == nil {
		return nil, errNoObject
	}
	return o.codec.Decode(nil, o.record)
}

// Decode returns a new object that is decoded from the JSON. It returns an error for the zero Object, and if the JSON
// is invalid (see [stream.Raw]), which names the object and quotes nothing of it.
func (o Object) Decode() (decoded *unstructured.Unstructured, err error) {
	err = o.read(func(json []byte) error {
		decoded, err = decode.Decode(json)
		return err
	})
	return decoded, err
}

// read calls f with the JSON, which is valid until f returns. It describes the error of f.
func (o Object) read(f func(json []byte) error) error {
	if o.codec == nil {
		return errNoObject
	}
	if err := o.codec.With(o.record, f); err != nil {
		return fmt.Errorf("store: cannot decode %s/%s: %w", o.Namespace(), o.Name(), guard.Redact(err))
	}
	return nil
}

// As decodes an object into a value of type T, such as corev1.Pod or *corev1.Pod, as [stream.As] does with the object
// of an event. It returns an error for the zero Object, and if the JSON is invalid or does not fit the type.
func As[T any](o Object) (value T, err error) {
	err = o.read(func(json []byte) error {
		value, err = typed.Decode[T](json)
		return err
	})
	return value, err
}

// Meta returns the metadata of the object. It decodes no more of the JSON than it is asked for, and nothing for the
// namespace, name, uid and resourceVersion. Of the zero Object, and of JSON that is invalid, the rest is empty.
func (o Object) Meta() stream.Meta {
	id := o.record.Identity()
	return decode.NewMetaOf(id, func() []byte {
		json, _ := o.JSON() // nil if there is none
		return json
	})
}
