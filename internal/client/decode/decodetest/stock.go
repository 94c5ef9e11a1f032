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

// stock is what the dynamic client reads JSON with.
func stock() runtime.SerializerInfo {
	return dynamic.ConfigFor(&rest.Config{}).NegotiatedSerializer.SupportedMediaTypes()[0]
}

// Object is what unstructured.UnstructuredJSONScheme makes of data, whatever its
// kind.
func Object(data []byte) (map[string]any, error) {
	m := map[string]any{}
	if err := utiljson.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	return m, nil
}

// List is what the dynamic client makes of a list.
func List(data []byte) (*unstructured.UnstructuredList, error) {
	l := &unstructured.UnstructuredList{}
	if _, _, err := stock().Serializer.Decode(data, nil, l); err != nil {
		return nil, err
	}
	return l, nil
}

// Event is the first event of a watch that has sent data.
func Event(data []byte) (watch.EventType, runtime.Object, error) {
	s := stock()
	frames := s.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(data)))
	return restwatch.NewDecoder(streaming.NewDecoder(frames, s.StreamSerializer.Serializer), s.Serializer).Decode()
}

// errMore is how a reader says that it would block.
var errMore = errors.New("more is needed")

type starved struct{ bytes.Reader }

func (s *starved) Read(p []byte) (int, error) {
	if s.Len() == 0 {
		return 0, errMore
	}
	return s.Reader.Read(p)
}

// Frame says how long the JSON value is that data begins with, white space before
// it included, or that this can't be known without more data. It is an error where
// more can't help.
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
