package main

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// thing is what the Go types of custom resources have here.
type thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              counted  `json:"spec"`
	Status            *counted `json:"status,omitempty"`
}

type counted struct {
	N int64 `json:"n,omitempty"`
}

func (t *thing) copyTo(to *thing) {
	*to = *t
	t.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	if t.Status != nil {
		status := *t.Status
		to.Status = &status
	}
}

type (
	widget struct {
		thing `json:",inline"` // its fields are those of the JSON
	}
	globe struct {
		thing `json:",inline"` // its fields are those of the JSON
	}
	widgetList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []widget `json:"items"`
	}
	globeList struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata,omitempty"`
		Items           []globe `json:"items"`
	}
)

func (w *widget) DeepCopyObject() runtime.Object {
	c := &widget{}
	w.copyTo(&c.thing)
	return c
}

func (g *globe) DeepCopyObject() runtime.Object {
	c := &globe{}
	g.copyTo(&c.thing)
	return c
}

func (l *widgetList) DeepCopyObject() runtime.Object {
	c := &widgetList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]widget, len(l.Items))}
	for i := range l.Items {
		l.Items[i].copyTo(&c.Items[i].thing)
	}
	return c
}

func (l *globeList) DeepCopyObject() runtime.Object {
	c := &globeList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]globe, len(l.Items))}
	for i := range l.Items {
		l.Items[i].copyTo(&c.Items[i].thing)
	}
	return c
}

// representation is what a cache keeps the objects of a resource as.
type representation string

const (
	typed        representation = "typed"
	untyped      representation = "unstructured"
	metadataOnly representation = "metadata"
)

// cached is a resource and what a cache keeps its objects as.
type cached struct {
	info crdInfo
	as   representation
}

// cachedOf returns what the caches keep: all resources as unstructured objects, and each of them as something else too
// but for those that faults change most.
func cachedOf(crds []crdInfo) (all []cached) {
	for _, info := range crds {
		all = append(all, cached{info, untyped})
		switch info.Kind {
		case "Widget", "Globe":
			all = append(all, cached{info, typed})
		case "Gadget", "Bolt":
			all = append(all, cached{info, metadataOnly})
		}
	}
	return all
}

func (c cached) kind() schema.GroupVersionKind {
	return c.info.GVR.GroupVersion().WithKind(c.info.Kind)
}

func (c cached) object() crclient.Object {
	switch {
	case c.as == untyped:
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(c.kind())
		return o
	case c.as == metadataOnly:
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(c.kind())
		return o
	case c.info.Kind == "Widget":
		return &widget{}
	}
	return &globe{}
}

func (c cached) list() crclient.ObjectList {
	kind := c.kind()
	kind.Kind += "List"
	switch {
	case c.as == untyped:
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(kind)
		return l
	case c.as == metadataOnly:
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(kind)
		return l
	case c.info.Kind == "Widget":
		return &widgetList{}
	}
	return &globeList{}
}

// cacheScheme has the Go types, and cacheMapper all resources.
func cacheScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	v1 := schema.GroupVersion{Group: group, Version: "v1"}
	s.AddKnownTypeWithName(v1.WithKind("Widget"), &widget{})
	s.AddKnownTypeWithName(v1.WithKind("WidgetList"), &widgetList{})
	s.AddKnownTypeWithName(v1.WithKind("Globe"), &globe{})
	s.AddKnownTypeWithName(v1.WithKind("GlobeList"), &globeList{})
	metav1.AddToGroupVersion(s, v1)
	return s
}

func cacheMapper(crds []crdInfo) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, info := range crds {
		scope := meta.RESTScope(meta.RESTScopeRoot)
		if info.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		m.Add(cached{info: info}.kind(), scope)
	}
	return m
}

// indexed is the value of an object in the indexes: a field, or a label if there are only metadata.
func indexed(o crclient.Object) []string {
	var n int64
	switch o := o.(type) {
	case *unstructured.Unstructured:
		n, _, _ = unstructured.NestedInt64(o.Object, "spec", "n")
	case *widget:
		n = o.Spec.N
	case *globe:
		n = o.Spec.N
	default:
		return []string{o.GetLabels()[selected]}
	}
	return []string{strconv.FormatInt(n%4, 10)}
}

// spoil changes an object wherever a change can be seen.
func spoil(o crclient.Object) {
	labels := o.GetLabels()
	for k := range labels {
		labels[k] = "spoiled"
	}
	for _, f := range o.GetManagedFields() {
		if f.FieldsV1 != nil {
			f.FieldsV1.SetRawBytes([]byte("{}"))
		}
	}
	switch o := o.(type) {
	case *unstructured.Unstructured:
		spoilMap(o.Object)
	case *widget:
		o.spoil()
	case *globe:
		o.spoil()
	}
	o.SetUID("spoiled")
	o.SetResourceVersion("spoiled")
	o.SetName("spoiled")
}

func (t *thing) spoil() {
	t.Spec.N = -1
	if t.Status != nil {
		t.Status.N = -1
	}
}

func spoilMap(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case map[string]any:
			spoilMap(v)
		case []any:
			for _, item := range v {
				if item, ok := item.(map[string]any); ok {
					spoilMap(item)
				}
			}
		case string:
			m[k] = "spoiled"
		default:
			m[k] = int64(-1)
		}
	}
}

// keyOf returns the key of an object in client-go's stores.
func keyOf(o crclient.Object) string { return join(o.GetNamespace(), o.GetName()) }

// nameOf names a version of an object in violations.
func nameOf(o crclient.Object) string {
	return fmt.Sprintf("%s (%s, at %s)", keyOf(o), o.GetUID(), o.GetResourceVersion())
}
