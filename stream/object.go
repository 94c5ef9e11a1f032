package stream

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// object is one as it was received, with what tells its versions apart.
type object struct {
	*unstructured.Unstructured
	identity
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
	if id := identify(o); id.version != "" {
		return object{Unstructured: o, identity: id}
	}
	return faked(o)
}

// faked takes an object from client-go's fakes. They leave resourceVersions as
// they find them, usually empty, so that only the content tells one version from
// the next, and hand out objects that they keep.
func faked(o *unstructured.Unstructured) object {
	id := identify(o)
	id.version = hash(o)
	return object{Unstructured: ownCopy(o), identity: id}
}

// identify reads at once what each has a method for that reads metadata anew.
func identify(o *unstructured.Unstructured) identity {
	metadata, _ := o.Object["metadata"].(map[string]any)
	text := func(key string) string {
		s, _ := metadata[key].(string)
		return s
	}
	return identity{namespacedName(text("namespace"), text("name")), types.UID(text("uid")), text("resourceVersion")}
}

// unversioned says that the version is not one of a server.
func (o object) unversioned() bool { return strings.HasPrefix(o.version, noVersion) }

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

// notAfter says that version a is known to be b or older. Versions that can't
// be compared are trusted to come in order.
func notAfter(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order <= 0
}

// before says that version a is known to be older than b.
func before(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// usable says whether a watch can begin at a version: at "0", however it is
// written, it would begin at any, possibly in the past.
func usable(rv string) bool { return strings.Trim(rv, "0") != "" }

// follows says whether a version is of the same sort as another: a server whose
// versions are numbers sends no words.
func follows(rv, cursor string) bool {
	return usable(rv) && (isNumber(rv) || !isNumber(cursor))
}

func isNumber(rv string) bool {
	_, err := resourceversion.CompareResourceVersion(rv, rv)
	return err == nil
}

// metadataOf keeps apiVersion, kind and metadata of an object. One that the
// server sent as PartialObjectMetadata gets those of its own kind back.
func metadataOf(o *unstructured.Unstructured, r gvr.Resource) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{"metadata": o.Object["metadata"]}}
	if o.GetKind() == "PartialObjectMetadata" && r.Kind != "" {
		m.SetGroupVersionKind(r.GroupVersionKind())
		return m
	}
	m.SetAPIVersion(o.GetAPIVersion())
	m.SetKind(o.GetKind())
	return m
}
