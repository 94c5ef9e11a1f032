package stream

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/gvr"
)

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
