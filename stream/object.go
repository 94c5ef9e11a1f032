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
	"github.com/gvrwatch/gvrwatch/internal/index"
)

// object is one as it was received, with what tells its versions apart.
type object struct {
	*unstructured.Unstructured
	index.Entry
	verdict client.Verdict // of Options.Select, if it was asked before the object was decoded
}

// noVersion begins a version that is no resourceVersion but a hash.
const noVersion = "#"

// received takes an object from a server's answer.
func received(o *unstructured.Unstructured) object {
	if id := identify(o); id.Version != "" {
		return object{Unstructured: o, Entry: id}
	}
	return receivedFromFake(o)
}

// faked takes an object from client-go's fakes. They leave resourceVersions as
// they find them, usually empty, so that only the content tells one version from
// the next, and hand out objects that they keep.
func receivedFromFake(o *unstructured.Unstructured) object {
	id := identify(o)
	id.Version = hash(o)
	return object{Unstructured: copyJSON(o), Entry: id}
}

// identify reads at once what each has a method for that reads metadata anew.
func identify(o *unstructured.Unstructured) index.Entry {
	metadata, _ := o.Object["metadata"].(map[string]any)
	text := func(key string) string {
		s, _ := metadata[key].(string)
		return s
	}
	name := types.NamespacedName{Namespace: text("namespace"), Name: text("name")}
	return index.Entry{NamespacedName: name, UID: types.UID(text("uid")), Version: text("resourceVersion")}
}

// unversioned says that the version is not one of a server.
func (o object) unversioned() bool { return strings.HasPrefix(o.Version, noVersion) }

func hash(o *unstructured.Unstructured) string {
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(o.Object); err != nil {
		fmt.Fprint(h, o.Object) // what JSON has no number for: a fake's NaN
	}
	return noVersion + strconv.FormatUint(h.Sum64(), 36)
}

// ownCopy copies through JSON: DeepCopy panics at what a server can't have sent,
// but a test writes easily, such as an int.
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

// inferred is the object of a DELETED that no event of the server reported.
func inferred(e *index.Entry, r gvr.Resource) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(r.GroupVersionKind())
	o.SetNamespace(e.Namespace)
	o.SetName(e.Name)
	o.SetUID(e.UID)
	if !strings.HasPrefix(e.Version, noVersion) {
		o.SetResourceVersion(e.Version)
	}
	return o
}

// known is an entry of the index as a Position holds it.
func objectOf(e index.Entry) checkpoint.Object {
	return checkpoint.Object{Namespace: e.Namespace, Name: e.Name, UID: e.UID, ResourceVersion: e.Version}
}

// entryOf is the reverse of known.
func entryOf(o checkpoint.Object) index.Entry {
	return index.Entry{NamespacedName: o.NamespacedName(), UID: o.UID, Version: o.ResourceVersion}
}
