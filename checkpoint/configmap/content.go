package configmap

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// content is data and binaryData of a ConfigMap.
type content struct {
	data   map[string]string
	binary map[string][]byte
}

// contentOf returns that of an object, which is not a typed one so that fields
// that this version of the API does not know are kept.
func contentOf(o *unstructured.Unstructured) (content, error) {
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		return content{}, err
	}
	encoded, _, err := unstructured.NestedStringMap(o.Object, "binaryData")
	if err != nil {
		return content{}, err
	}
	c := content{data: map[string]string{}, binary: make(map[string][]byte, len(encoded))}
	maps.Copy(c.data, data)
	for name, text := range encoded {
		if c.binary[name], err = base64.StdEncoding.DecodeString(text); err != nil {
			return content{}, fmt.Errorf("binaryData %q: %w", name, err)
		}
	}
	return c, nil
}

// into makes it that of an object.
func (c content) into(o *unstructured.Unstructured) {
	data, binary := map[string]any{}, map[string]any{}
	for name, text := range c.data {
		data[name] = text
	}
	for name, b := range c.binary {
		binary[name] = base64.StdEncoding.EncodeToString(b)
	}
	o.Object["data"], o.Object["binaryData"] = data, binary
}

func (c content) clone() content { return content{maps.Clone(c.data), maps.Clone(c.binary)} }

// bytes is what the server counts.
func (c content) bytes() int {
	n := 0
	for _, text := range c.data {
		n += len(text)
	}
	for _, b := range c.binary {
		n += len(b)
	}
	return n
}

// forget removes what is of a key.
func (c content) forget(key string) {
	for _, name := range []string{checkpointPrefix + key, indexPrefix + key} {
		delete(c.data, name)
		delete(c.binary, name)
	}
}

// keys are those of the checkpoints in it, sorted. An index without its checkpoint
// counts, but not one in data, where none is ever written: that is somebody
// else's.
func (c content) keys() []string {
	keys := map[string]bool{}
	for name := range c.data {
		if key, ok := strings.CutPrefix(name, checkpointPrefix); ok {
			keys[key] = true
		}
	}
	for name := range c.binary {
		if key, ok := strings.CutPrefix(name, indexPrefix); ok {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}
