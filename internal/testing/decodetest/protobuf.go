package decodetest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"

	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
)

// stockProtobuf returns the protobuf serializers of client-go's metadata client.
func stockProtobuf() runtime.SerializerInfo {
	info, _ := runtime.SerializerInfoForMediaType(
		metainternalversionscheme.Codecs.WithoutConversion().SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	return info
}

// ProtobufEvent decodes the event that data begins with as the metadata client does, and converts a
// PartialObjectMetadata into an unstructured object without managedFields.
func ProtobufEvent(data []byte) (watch.EventType, runtime.Object, error) {
	s := stockProtobuf()
	frames := s.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(data)))
	kind, o, err := restwatch.NewDecoder(streaming.NewDecoder(frames, s.StreamSerializer.Serializer),
		s.Serializer).Decode()
	if p, ok := o.(*metav1.PartialObjectMetadata); ok && err == nil {
		o, err = withoutManagedFields(p)
	}
	return kind, o, err
}

func withoutManagedFields(p *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	p.ManagedFields = nil
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	return &unstructured.Unstructured{Object: m}, err
}

// ProtobufList decodes a list as the metadata client does, and converts it as ProtobufEvent does.
func ProtobufList(data []byte) (*unstructured.UnstructuredList, error) {
	var list metav1.PartialObjectMetadataList
	_, _, err := stockProtobuf().Serializer.Decode(data, nil, &list)
	if err != nil {
		return nil, err
	}
	items := list.Items
	list.Items = nil
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list)
	if err != nil {
		return nil, err
	}
	delete(m, "items")
	out := &unstructured.UnstructuredList{Object: m, Items: []unstructured.Unstructured{}}
	for i := range items {
		items[i].SetGroupVersionKind(metadata)
		item, err := withoutManagedFields(&items[i])
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, *item)
	}
	return out, nil
}

// EventToProtobuf converts an event from JSON into protobuf, as a kube-apiserver writes it that is asked for metadata.
// It panics if the JSON is invalid.
func EventToProtobuf(data []byte) []byte {
	var v struct {
		Type   string
		Object json.RawMessage
	}
	check(json.Unmarshal(data, &v))
	var o runtime.Object = &metav1.PartialObjectMetadata{}
	if v.Type == string(watch.Error) {
		o = &metav1.Status{}
	}
	check(json.Unmarshal(v.Object, o))
	if v.Type != string(watch.Error) {
		o.GetObjectKind().SetGroupVersionKind(metadata)
	}
	frame, err := (&metav1.WatchEvent{Type: v.Type, Object: runtime.RawExtension{Raw: encode(o)}}).Marshal()
	check(err)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
}

// ListToProtobuf converts a list like EventToProtobuf.
func ListToProtobuf(data []byte) []byte {
	list := &metav1.PartialObjectMetadataList{}
	check(json.Unmarshal(data, list))
	list.SetGroupVersionKind(metadata.GroupVersion().WithKind(metadata.Kind + "List"))
	return encode(list)
}

func encode(o runtime.Object) []byte {
	var b bytes.Buffer
	check(protobuf.NewSerializer(nil, nil).Encode(o, &b))
	return b.Bytes()
}

var metadata = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")

func check(err error) {
	if err != nil {
		panic(err)
	}
}
