package sequence

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/client/decode"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/size"
)

// objectEvent is an event of a watch about an object.
type objectEvent struct {
	object object
	kind   watch.EventType
}

// object is a received object. Its ResourceVersion is a hash if the server sent none (see noVersion).
type object struct {
	objects.Version // embedded: the object is in this version
	body            body
	verdict         client.Verdict // of Config.Select, if it was called before the object was decoded, or of Matches
}

// body is an object as an Event has it: decoded, or as JSON.
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

// Meta is the access to metadata of stream.Meta.
type Meta interface {
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
	GetGeneration() int64
	GetCreationTimestamp() metav1.Time
	GetDeletionTimestamp() *metav1.Time
	GetLabels() map[string]string
	GetAnnotations() map[string]string
	GetFinalizers() []string
	GetOwnerReferences() []metav1.OwnerReference
}

func (o object) meta() Meta {
	if o.body.decoded != nil {
		return o.body.decoded
	}
	return decode.NewMeta(o.body.json)
}

// noVersion is the prefix of a ResourceVersion that is a hash.
const noVersion = "#"

// accept converts an object, decoded or raw, or returns an error if it has no name or namespace.
func (t *Target) accept(o *unstructured.Unstructured, raw decode.Raw) (object, error) {
	var accepted object
	switch {
	case raw.Version.ResourceVersion != "":
		accepted = receivedWith(o, raw)
	case raw.JSON != nil:
		var err error
		if o, err = decode.Decode(raw.JSON); err != nil {
			return object{}, err
		}
		accepted = received(o)
	case t.Fake:
		accepted = receivedWithoutVersion(o)
	default:
		accepted = received(o)
	}
	if accepted.Name == "" || t.Resource.Namespaced && accepted.Namespace == "" && !t.Fake {
		return object{}, errNameless
	}
	if t.Matches != nil && !t.Matches(accepted.body.decoded) { // before the object loses what it is selected by
		accepted.verdict = client.Rejected
	}
	var err error
	switch {
	case t.Objects == client.Metadata:
		accepted.body.decoded = t.typeMeta.metadataOf(accepted.body.decoded)
	case t.Objects == client.Raw && accepted.body.json == nil:
		accepted.body.json, err = json.Marshal(accepted.body.decoded.Object)
		accepted.body.decoded = nil
	}
	return accepted, err
}

// received returns an object from a server's answer.
func received(o *unstructured.Unstructured) object {
	if id := identify(o); id.ResourceVersion != "" {
		return object{body: body{decoded: o}, Version: id}
	}
	return receivedWithoutVersion(o)
}

// receivedWithoutVersion returns an object that has no resourceVersion, as client-go's fake sends it: a hash of the
// content identifies its state. The fake sends the objects that it stores, so they are copied.
func receivedWithoutVersion(o *unstructured.Unstructured) object {
	id := identify(o)
	id.ResourceVersion = hash(o)
	return object{body: body{decoded: copyJSON(o)}, Version: id}
}

// receivedWith returns an object from a server's answer that is decoded or raw, and whose identity is known.
func receivedWith(o *unstructured.Unstructured, r decode.Raw) object {
	return object{body: body{decoded: o, json: r.JSON}, Version: r.Version}
}

// identify reads the metadata once; the methods of Unstructured would do so for each field.
func identify(o *unstructured.Unstructured) objects.Version {
	metadata, _ := o.Object["metadata"].(map[string]any)
	text := func(key string) string {
		s, _ := metadata[key].(string)
		return s
	}
	id := objects.ID{Namespace: text("namespace"), Name: text("name"), UID: types.UID(text("uid"))}
	return objects.Version{ID: id, ResourceVersion: text("resourceVersion")}
}

// selects reports whether an object is selected.
func (t *Target) selects(o object) bool {
	if o.verdict != client.Unasked {
		return o.verdict == client.Selected
	}
	return t.Select == nil || t.Select(o.meta())
}

// unversioned reports whether the ResourceVersion is a hash.
func (o object) unversioned() bool { return strings.HasPrefix(o.ResourceVersion, noVersion) }

// resourceVersion returns the object's resourceVersion, which is empty if the server sent none.
func (o object) resourceVersion() string {
	if o.unversioned() {
		return o.meta().GetResourceVersion()
	}
	return o.ResourceVersion
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
func (t *Target) inferred(e *objects.Version) object {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(t.Resource.GroupVersionKind())
	o.SetNamespace(e.Namespace)
	o.SetName(e.Name)
	o.SetUID(e.UID)
	if !strings.HasPrefix(e.ResourceVersion, noVersion) {
		o.SetResourceVersion(e.ResourceVersion)
	}
	if t.Objects == client.Raw {
		text, _ := json.Marshal(o.Object) // it has only strings
		return object{body: body{json: text}, Version: *e}
	}
	return object{body: body{decoded: o}, Version: *e}
}

// objectOf converts an index entry to an object of a Position.
func objectOf(e objects.Version) checkpoint.Object {
	return checkpoint.Object{Namespace: e.Namespace, Name: e.Name, UID: e.UID, ResourceVersion: e.ResourceVersion}
}

// entryOf is the reverse of objectOf.
func entryOf(o checkpoint.Object) objects.Version {
	id := objects.ID{Namespace: o.Namespace, Name: o.Name, UID: o.UID}
	return objects.Version{ID: id, ResourceVersion: o.ResourceVersion}
}
