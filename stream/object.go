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

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/index"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/size"
)

// object is a received object with its index entry, whose Version identifies the object's state.
type object struct {
	body
	index.Entry
	verdict client.Verdict // of Options.Select, if it was called before the object was decoded
}

// body is an object as Event has it: decoded, or as JSON.
type body struct {
	decoded *unstructured.Unstructured
	json    []byte
	memory  int64 // about how much it takes, if that has been counted, else 0
}

func (b body) size() int64 {
	switch {
	case b.memory > 0:
		return b.memory
	case b.decoded == nil:
		return int64(len(b.json))
	}
	return size.Of(b.decoded.Object)
}

func (o object) meta() Meta {
	if o.decoded != nil {
		return o.decoded
	}
	return decode.NewMeta(o.json)
}

// noVersion is the prefix of a Version that is a hash instead of a resourceVersion.
const noVersion = "#"

// received returns an object from a server's answer.
func received(o *unstructured.Unstructured) object {
	if id := identify(o); id.Version != "" {
		return object{body: body{decoded: o}, Entry: id}
	}
	return receivedFromFake(o)
}

// receivedFromFake returns an object from client-go's fake. The fake does not set resourceVersions, so a hash of the
// content identifies the state; and it returns the objects that it stores, so they are copied.
func receivedFromFake(o *unstructured.Unstructured) object {
	id := identify(o)
	id.Version = hash(o)
	return object{body: body{decoded: copyJSON(o)}, Entry: id}
}

// receivedWith returns an object from a server's answer that is decoded or raw, and whose identity is known.
func receivedWith(o *unstructured.Unstructured, r decode.Raw) object {
	name := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	id := index.Entry{NamespacedName: name, UID: types.UID(r.UID), Version: r.ResourceVersion}
	return object{body: body{decoded: o, json: r.JSON}, Entry: id}
}

// identify reads the metadata once; the methods of Unstructured would do so for each field.
func identify(o *unstructured.Unstructured) index.Entry {
	metadata, _ := o.Object["metadata"].(map[string]any)
	text := func(key string) string {
		s, _ := metadata[key].(string)
		return s
	}
	name := types.NamespacedName{Namespace: text("namespace"), Name: text("name")}
	return index.Entry{NamespacedName: name, UID: types.UID(text("uid")), Version: text("resourceVersion")}
}

// unversioned reports whether the Version is a hash.
func (o object) unversioned() bool { return strings.HasPrefix(o.Version, noVersion) }

// resourceVersion returns the object's resourceVersion, which is empty if the server sent none.
func (o object) resourceVersion() string {
	if o.unversioned() {
		return o.meta().GetResourceVersion()
	}
	return o.Version
}

func hash(o *unstructured.Unstructured) string {
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(o.Object); err != nil {
		fmt.Fprint(h, o.Object) // not valid in JSON, such as a NaN in a fake
	}
	return noVersion + strconv.FormatUint(h.Sum64(), 36)
}

// copyJSON copies an object through JSON: DeepCopy panics on types that a server never sends but tests use, such as
// int.
func copyJSON(o *unstructured.Unstructured) *unstructured.Unstructured {
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

// typeMeta is the apiVersion and kind of a resource, as values of a map, which would otherwise be made for each object.
type typeMeta struct{ apiVersion, kind any }

func typeMetaOf(r gvr.Resource) typeMeta {
	apiVersion, kind := r.GroupVersionKind().ToAPIVersionAndKind()
	return typeMeta{apiVersion, kind}
}

// metadataOf returns apiVersion, kind, and metadata without managedFields. It may change the object. A
// PartialObjectMetadata gets the apiVersion and kind of the resource.
func (t typeMeta) metadataOf(o *unstructured.Unstructured) *unstructured.Unstructured {
	metadata, kind := o.Object["metadata"], o.Object["kind"]
	if m, ok := metadata.(map[string]any); ok {
		delete(m, "managedFields")
	}
	partial := kind == "PartialObjectMetadata" && t.kind != ""
	if !partial || len(o.Object) != 3 {
		m := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata}}
		m.SetAPIVersion(o.GetAPIVersion())
		m.SetKind(o.GetKind())
		o = m
	}
	if partial {
		o.Object["apiVersion"], o.Object["kind"] = t.apiVersion, t.kind
	}
	return o
}

// inferred returns the object of an inferred DELETED.
func (w *worker) inferred(e *index.Entry) object {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(w.resource.GroupVersionKind())
	o.SetNamespace(e.Namespace)
	o.SetName(e.Name)
	o.SetUID(e.UID)
	if !strings.HasPrefix(e.Version, noVersion) {
		o.SetResourceVersion(e.Version)
	}
	if w.options.Objects == Raw {
		text, _ := json.Marshal(o.Object) // it has only strings
		return object{body: body{json: text}, Entry: *e}
	}
	return object{body: body{decoded: o}, Entry: *e}
}

// objectOf converts an index entry to an object of a Position.
func objectOf(e index.Entry) checkpoint.Object {
	return checkpoint.Object{Namespace: e.Namespace, Name: e.Name, UID: e.UID, ResourceVersion: e.Version}
}

// entryOf is the reverse of objectOf.
func entryOf(o checkpoint.Object) index.Entry {
	return index.Entry{NamespacedName: o.NamespacedName(), UID: o.UID, Version: o.ResourceVersion}
}

// versionOf returns an entry as an acks.Change has it.
func versionOf(e index.Entry) objects.Version {
	id := objects.ID{Namespace: e.Namespace, Name: e.Name, UID: e.UID}
	return objects.Version{ID: id, ResourceVersion: e.Version}
}
