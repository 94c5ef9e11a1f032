package streamtest

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// render makes a copy of a stored object as the view's resource serves it.
func (v view) render(o map[string]any) map[string]any {
	out := map[string]any{"metadata": runtime.DeepCopyJSONValue(o["metadata"])}
	if v.metadata {
		out["apiVersion"], out["kind"] = "meta.k8s.io/v1", "PartialObjectMetadata"
		return out
	}
	for name, value := range o {
		if name != "metadata" {
			out[name] = runtime.DeepCopyJSONValue(value)
		}
	}
	out["apiVersion"], out["kind"] = v.resource.GroupVersion().String(), v.resource.Kind
	return out
}

// bookmark is the object of a BOOKMARK.
func (v view) bookmark(rev int64, endOfInitial bool) map[string]any {
	metadata := map[string]any{"resourceVersion": formatVersion(rev)}
	if endOfInitial {
		metadata["annotations"] = map[string]any{"k8s.io/initial-events-end": "true"}
	}
	return v.render(map[string]any{"metadata": metadata})
}

// fieldSet finds the values of field selectors by their dotted paths.
type fieldSet struct{ object map[string]any }

func (f fieldSet) Has(field string) bool { return f.Get(field) != "" }

func (f fieldSet) Get(field string) string {
	value, _, _ := unstructured.NestedFieldNoCopy(f.object, strings.Split(field, ".")...)
	switch value.(type) {
	case nil, map[string]any, []any:
		return ""
	}
	return fmt.Sprint(value)
}

func formatVersion(rev int64) string { return strconv.FormatInt(rev, 10) }

// parseVersion is -1 for what is no version of this server.
func parseVersion(rv string) int64 {
	rev, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		return -1
	}
	return rev
}
