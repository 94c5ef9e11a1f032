package decodetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
)

// stock returns the JSON serializers of the dynamic client.
func stock() runtime.SerializerInfo {
	return dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer.SupportedMediaTypes()[0]
}

// Object decodes an object as unstructured.UnstructuredJSONScheme does, whatever its kind.
func Object(data []byte) (map[string]any, error) {
	m := map[string]any{}
	if err := utiljson.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	return m, nil
}

// List decodes a list as the dynamic client does.
func List(data []byte) (*unstructured.UnstructuredList, error) {
	l := &unstructured.UnstructuredList{}
	if _, _, err := stock().Serializer.Decode(data, nil, l); err != nil {
		return nil, err
	}
	return l, nil
}

// Event decodes the event that data begins with as the dynamic client does.
func Event(data []byte) (watch.EventType, runtime.Object, error) {
	s := stock()
	frames := s.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(data)))
	return restwatch.NewDecoder(streaming.NewDecoder(frames, s.StreamSerializer.Serializer), s.Serializer).Decode()
}

// errMore is the error of a reader that has no more data yet.
var errMore = errors.New("more is needed")

type starved struct{ bytes.Reader }

func (s *starved) Read(p []byte) (int, error) {
	if s.Len() == 0 {
		return 0, errMore
	}
	return s.Reader.Read(p)
}

// Frame returns the length of the JSON value that data begins with, including white space before it. more says that the
// value is incomplete, and err that it is invalid.
func Frame(data []byte) (n int, more bool, err error) {
	var s starved
	s.Reset(data)
	d := json.NewDecoder(&s)
	var frame json.RawMessage
	switch err := d.Decode(&frame); {
	case errors.Is(err, errMore):
		return 0, true, nil
	case err != nil:
		return 0, false, err
	}
	return int(d.InputOffset()), false, nil
}
