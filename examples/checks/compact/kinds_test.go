package compact

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// kind is one way in which a program asks for objects.
type kind struct {
	name     string
	resource gvr.Resource
	object   func() client.Object
	list     func() client.ObjectList
	// size is what the field index "size" is of. Metadata have it as a label only.
	size func(client.Object) string
}

var (
	configMaps = gvr.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), Kind: "ConfigMap", Namespaced: true,
	}
	secrets = gvr.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("secrets"), Kind: "Secret", Namespaced: true,
	}
	namespaces = gvr.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces"), Kind: "Namespace",
	}
	widgets = gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Namespaced: true,
	}
)

// kinds are the ways of the table.
func kinds() []kind {
	return []kind{
		{
			"typed protobuf", configMaps,
			func() client.Object { return &corev1.ConfigMap{} },
			func() client.ObjectList { return &corev1.ConfigMapList{} },
			func(o client.Object) string { return o.(*corev1.ConfigMap).Data["size"] },
		},
		{
			"typed JSON", widgets,
			func() client.Object { return &Widget{} },
			func() client.ObjectList { return &WidgetList{} },
			func(o client.Object) string { return o.(*Widget).Spec["size"] },
		},
		{"unstructured", widgets, newUnstructured(widgets), newUnstructuredList(widgets), func(o client.Object) string {
			size, _, _ := unstructured.NestedString(o.(*unstructured.Unstructured).Object, "spec", "size")
			return size
		}},
		{"metadata", widgets, newMetadata(widgets), newMetadataList(widgets), sizeLabel},
		{"metadata of a built-in type", configMaps, newMetadata(configMaps), newMetadataList(configMaps), sizeLabel},
	}
}

func sizeLabel(o client.Object) string { return o.GetLabels()["size"] }

func gvkOf(r gvr.Resource) schema.GroupVersionKind { return r.GroupVersion().WithKind(r.Kind) }

func newUnstructured(r gvr.Resource) func() client.Object {
	return func() client.Object {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(gvkOf(r))
		return o
	}
}

func newUnstructuredList(r gvr.Resource) func() client.ObjectList {
	return func() client.ObjectList {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(r.GroupVersion().WithKind(r.Kind + "List"))
		return l
	}
}

func newMetadata(r gvr.Resource) func() client.Object {
	return func() client.Object {
		o := &metav1.PartialObjectMetadata{}
		o.SetGroupVersionKind(gvkOf(r))
		return o
	}
}

func newMetadataList(r gvr.Resource) func() client.ObjectList {
	return func() client.ObjectList {
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(r.GroupVersion().WithKind(r.Kind + "List"))
		return l
	}
}

// content returns what an object has beside its metadata: for a Widget, what types of CRDs have and JSON has ways of
// its own to write.
func content(r gvr.Resource, size string) map[string]any {
	switch r.Kind {
	case "ConfigMap":
		return map[string]any{
			"data":       map[string]any{"size": size, "text": "<&> \u2028 é"},
			"binaryData": map[string]any{"b": "AAEC/w=="},
		}
	case "Secret":
		return map[string]any{"data": map[string]any{"size": "AAEC/w=="}, "type": "Opaque"}
	case "Widget":
		return map[string]any{
			"spec":   map[string]any{"size": size, "empty": ""},
			"limits": map[string]any{"cpu": "1500m", "memory": "1Gi"},
			"port":   "http", "ratio": 1.5, "count": int64(1) << 60, "seen": "2026-01-02T03:04:05Z",
			"extra": map[string]any{
				"nested": []any{map[string]any{"a": int64(1)}, "b", nil, true, 0.1}, "html": "<&>",
			},
			"status": map[string]any{"names": []any{}, "none": nil},
		}
	}
	return nil
}

// Widget is a type of a CRD, as its author writes it: it has JSON only.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   map[string]string    `json:"spec,omitempty"`
	Limits corev1.ResourceList  `json:"limits,omitempty"`
	Port   *intstr.IntOrString  `json:"port,omitempty"`
	Ratio  float64              `json:"ratio,omitempty"`
	Count  int64                `json:"count,omitempty"`
	Seen   *metav1.Time         `json:"seen,omitempty"`
	Extra  runtime.RawExtension `json:"extra,omitempty"`
	Status struct {
		Names []string `json:"names"`
	} `json:"status"`
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	out := *w
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec, out.Limits = maps.Clone(w.Spec), w.Limits.DeepCopy()
	if w.Port != nil {
		port := *w.Port
		out.Port = &port
	}
	out.Seen = w.Seen.DeepCopy()
	out.Extra = *w.Extra.DeepCopy()
	out.Status.Names = slices.Clone(w.Status.Names)
	return &out
}

// WidgetList is a list of them.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Widget))
	}
	return &out
}

// newScheme has the types of the table.
func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	if err := corev1.AddToScheme(s); err != nil {
		panic(err)
	}
	s.AddKnownTypes(widgets.GroupVersion(), &Widget{}, &WidgetList{})
	metav1.AddToGroupVersion(s, widgets.GroupVersion())
	return s
}

// damage changes everything that an object has, in place.
func damage(o client.Object) {
	for _, m := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		for k := range m {
			m[k] = "damaged"
		}
		if m != nil {
			m["damaged"] = "yes"
		}
	}
	switch o := o.(type) {
	case *corev1.ConfigMap:
		for k := range o.Data {
			o.Data[k] = "damaged"
		}
		for _, b := range o.BinaryData {
			clear(b)
		}
		for i := range o.ManagedFields {
			o.ManagedFields[i].Manager = "damaged"
		}
	case *metav1.PartialObjectMetadata:
		for i := range o.ManagedFields {
			o.ManagedFields[i].Manager = "damaged"
		}
	case *Widget:
		for k := range o.Spec {
			o.Spec[k] = "damaged"
		}
		o.Limits["cpu"] = resource.MustParse("7")
		o.Port.StrVal = "damaged"
		o.Seen.Time = o.Seen.AddDate(1, 0, 0)
		clear(o.Extra.Raw)
	case *unstructured.Unstructured:
		damageMap(o.Object)
	}
	o.SetName("damaged")
	o.SetLabels(map[string]string{"damaged": "yes"})
}

func damageMap(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case map[string]any:
			damageMap(v)
		case []any:
			for i := range v {
				if nested, ok := v[i].(map[string]any); ok {
					damageMap(nested)
				} else {
					v[i] = "damaged"
				}
			}
		case string:
			if k != "kind" && k != "apiVersion" {
				m[k] = fmt.Sprint("damaged ", v)
			}
		}
	}
}

// Two kinds that are watched beside those of the table.
var (
	secretKind = kind{
		"secrets", secrets,
		func() client.Object { return &corev1.Secret{} },
		func() client.ObjectList { return &corev1.SecretList{} },
		sizeLabel,
	}
	namespaceKind = kind{
		"namespaces", namespaces,
		func() client.Object { return &corev1.Namespace{} },
		func() client.ObjectList { return &corev1.NamespaceList{} },
		sizeLabel,
	}
)
