package client

import (
	"encoding/binary"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/internal/client/decode"
)

// protobufFormat is application/vnd.kubernetes.protobuf, for metadata only.
type protobufFormat struct{}

func (protobufFormat) newDecoder() decoder { return decode.NewProtobuf() }

func (protobufFormat) newLister(d decoder, _ bool) lister { return d.(*decode.Protobuf).Lister() }

func (protobufFormat) newFrame() frame { return new(lengthFrame) }

func (protobufFormat) space([]byte) int { return 0 }

func (protobufFormat) lineEnd([]byte) int { return 0 }

func (protobufFormat) memory(data []byte) int64 { return decode.MemoryOfProtobuf(len(data)) }

// metadataSerializers are those of client-go's metadata client.
var metadataSerializers = func() runtime.SerializerInfo {
	info, _ := runtime.SerializerInfoForMediaType(
		metainternalversionscheme.Codecs.WithoutConversion().SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return info
}()

func (protobufFormat) stock() runtime.SerializerInfo {
	s := metadataSerializers
	s.Serializer = unstructuredSerializer{s.Serializer}
	return s
}

func (protobufFormat) list(data []byte) (*unstructured.UnstructuredList, error) {
	var list metav1.PartialObjectMetadataList
	o, _, err := metadataSerializers.Serializer.Decode(data, nil, &list)
	status, _ := o.(*metav1.Status)
	switch {
	case err != nil:
		return nil, err
	case status != nil && status.Status != metav1.StatusSuccess:
		return nil, apierrors.FromObject(status)
	case o != runtime.Object(&list): // client-go makes a list of any object, too
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		return &unstructured.UnstructuredList{Object: content}, err
	}
	items := list.Items
	list.Items = nil
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list)
	if err != nil {
		return nil, err
	}
	delete(content, "items")
	out := &unstructured.UnstructuredList{Object: content, Items: make([]unstructured.Unstructured, len(items))}
	for i := range items {
		items[i].SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		u, err := toUnstructured(&items[i])
		if err != nil {
			return nil, err
		}
		out.Items[i] = *u
	}
	return out, nil
}

// unstructuredSerializer decodes metadata into unstructured objects.
type unstructuredSerializer struct{ runtime.Serializer }

func (s unstructuredSerializer) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	o, kind, err := s.Serializer.Decode(data, defaults, into)
	if m, ok := o.(*metav1.PartialObjectMetadata); ok && err == nil {
		o, err = toUnstructured(m)
	}
	return o, kind, err
}

func toUnstructured(m *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	m.ManagedFields = nil
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	return &unstructured.Unstructured{Object: content}, err
}

// lengthFrame finds the ends of frames whose first bytes have their length.
type lengthFrame struct {
	begin [decode.LengthSize]byte
	read  int // bytes of the frame
}

func (f *lengthFrame) Begun() bool { return f.read > 0 }

func (f *lengthFrame) Reset() { f.read = 0 }

func (f *lengthFrame) End(data []byte) int {
	n := 0
	if f.read < len(f.begin) {
		n = copy(f.begin[f.read:], data)
		if f.read += n; f.read < len(f.begin) {
			return -1
		}
	}
	rest := int64(len(f.begin)) + int64(binary.BigEndian.Uint32(f.begin[:])) - int64(f.read)
	if rest > int64(len(data)-n) {
		f.read += len(data) - n
		return -1
	}
	f.Reset()
	return n + int(rest)
}
