package stream

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// object is one as it was received, with what tells its versions apart.
type object struct {
	*unstructured.Unstructured
	version string
	verdict verdict
}

// verdict is what Options.Select has said of an object, if it was asked before the
// object was built.
type verdict int

const (
	unasked verdict = iota
	passes
	fails
)

// noVersion begins a version that is no resourceVersion but a hash.
const noVersion = "#"

// received takes an object from a server's answer.
func received(o *unstructured.Unstructured) object {
	if version := o.GetResourceVersion(); version != "" {
		return object{Unstructured: o, version: version}
	}
	return faked(o)
}

// faked takes an object from client-go's fakes. They leave resourceVersions as
// they find them, usually empty, so that only the content tells one version from
// the next, and hand out objects that they keep.
func faked(o *unstructured.Unstructured) object {
	return object{Unstructured: ownCopy(o), version: hash(o)}
}

func (o object) name() types.NamespacedName {
	return namespacedName(o.GetNamespace(), o.GetName())
}

func namespacedName(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func hash(o *unstructured.Unstructured) string {
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(o.Object); err != nil {
		fmt.Fprint(h, o.Object) // what JSON has no number for: a fake's NaN
	}
	return noVersion + strconv.FormatUint(h.Sum64(), 36)
}

// ownCopy copies through JSON: DeepCopy panics at what a server can't have sent,
// but a test writes easily, such as an int.
func ownCopy(o *unstructured.Unstructured) *unstructured.Unstructured {
	b, err := json.Marshal(o.Object)
	if err != nil {
		return o
	}
	var content map[string]any
	if err := utiljson.Unmarshal(b, &content); err != nil {
		return o
	}
	return &unstructured.Unstructured{Object: content}
}
