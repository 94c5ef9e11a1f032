package door

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// format is how an answer is encoded.
type format struct{ protobuf, watch bool }

func (r *Request) format() format { return format{r.Protobuf, r.Verb == "watch"} }

// contentType returns that of an answer.
func (f format) contentType() string {
	switch {
	case !f.protobuf:
		return runtime.ContentTypeJSON
	case f.watch:
		return runtime.ContentTypeProtobuf + ";stream=watch"
	}
	return runtime.ContentTypeProtobuf
}

// encoded returns the body of an answer, as JSON or as protobuf.
func (f format) encoded(body any) []byte {
	if f.protobuf {
		return protobufOf(body)
	}
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // all that is served here can be written as JSON
	}
	return append(data, '\n')
}

// event returns an event, as JSON or as protobuf.
func (f format) event(kind watch.EventType, object any) []byte {
	if f.protobuf {
		raw := runtime.RawExtension{Raw: protobufOf(object)}
		return frameOf(marshal(&metav1.WatchEvent{Type: string(kind), Object: raw}))
	}
	return f.encoded(struct { // in the order of an API server
		Type   watch.EventType `json:"type"`
		Object any             `json:"object"`
	}{kind, object})
}

// frameOf puts the length before a frame, as watches in protobuf do.
func frameOf(data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

func marshal(m interface{ Marshal() ([]byte, error) }) []byte {
	data, err := m.Marshal()
	if err != nil {
		panic(err) // all that is served here can be written as protobuf
	}
	return data
}

// protobufOf encodes a Status, or an object or a list of which only the metadata is sent, in a runtime.Unknown.
func protobufOf(body any) []byte {
	var u runtime.Unknown
	switch body := body.(type) {
	case metav1.Status:
		u.TypeMeta, u.Raw = runtime.TypeMeta{APIVersion: "v1", Kind: "Status"}, marshal(&body)
	case map[string]any:
		u.APIVersion, _ = body["apiVersion"].(string)
		u.Kind, _ = body["kind"].(string)
		if items, ok := body["items"].([]any); ok {
			m := convert[metav1.ListMeta](body["metadata"])
			u.Raw = appendField(nil, 1, marshal(&m))
			for _, item := range items {
				u.Raw = appendField(u.Raw, 2, metadataOf(item.(map[string]any)))
			}
		} else {
			u.Raw = metadataOf(body)
		}
	}
	return append([]byte("k8s\x00"), marshal(&u)...)
}

// convert returns metadata as a struct, without the fields that are of other types than the struct's. A Server takes
// any metadata; a kube-apiserver refuses such fields.
func convert[T any](from any) (to T) {
	metadata, _ := from.(map[string]any)
	if fromUnstructured(metadata, &to) == nil {
		return to
	}
	valid := map[string]any{}
	for field, value := range metadata {
		var one T
		if fromUnstructured(map[string]any{field: value}, &one) == nil {
			valid[field] = value
		}
	}
	var left T
	_ = fromUnstructured(valid, &left) // each field alone is valid
	return left
}

var fromUnstructured = runtime.DefaultUnstructuredConverter.FromUnstructured

// appendField appends a field of bytes, whose number is below 16.
func appendField(to []byte, number byte, content []byte) []byte {
	return append(binary.AppendUvarint(append(to, number<<3|2), uint64(len(content))), content...)
}

// metadataOf returns a PartialObjectMetadata, with what damage has put into the object.
func metadataOf(o map[string]any) []byte {
	m := convert[metav1.ObjectMeta](o["metadata"])
	data := marshal(&m)
	if _, dense := o["padding"].(json.RawMessage); dense {
		data = append(data, bytes.Repeat([]byte{13<<3 | 2, 0}, denseMaps)...) // ownerReferences
	}
	data = appendField(nil, 1, data)
	if text, huge := o["padding"].(string); huge {
		data = appendField(data, 15, []byte(text))
	}
	if _, invalid := o["number"]; invalid {
		data = append(data, 1<<3|7) // there is no such type
	}
	return data
}

// endless returns the beginning of an answer that never ends.
func (f format) endless(json string) string {
	switch {
	case !f.protobuf:
		return json
	case f.watch:
		return "\x7f\xff\xff\xff"
	}
	return "k8s\x00\x0a\xff\xff\xff\xff\x07"
}

// endlessList is the beginning of a list, and makes more and more objects for it.
func (f format) endlessList(list map[string]any) (begin string, object func(metadata map[string]any) string) {
	delete(list, "items")
	if !f.protobuf {
		begin = strings.TrimSuffix(string(f.encoded(list)), "}\n") + `,"items":[`
		return begin, func(metadata map[string]any) string {
			item := f.encoded(map[string]any{"metadata": metadata, "padding": padding})
			return strings.TrimSuffix(string(item), "\n") + ","
		}
	}
	m := convert[metav1.ListMeta](list["metadata"])
	kind := &runtime.TypeMeta{APIVersion: list["apiVersion"].(string), Kind: list["kind"].(string)}
	data := appendField([]byte("k8s\x00"), 1, marshal(kind))
	data = binary.AppendUvarint(append(data, 2<<3|2), 1<<29) // the length of what follows
	return string(appendField(data, 1, marshal(&m))), func(metadata map[string]any) string {
		return string(appendField(nil, 2, metadataOf(map[string]any{"metadata": metadata, "padding": padding})))
	}
}
