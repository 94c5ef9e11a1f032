package apiserver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// view is how one list or watch sees the objects of a resource.
type view struct {
	resource   gvr.Resource
	namespaces []string
	labels     labels.Selector
	fields     fields.Selector
	metadata   bool // PartialObjectMetadata
}

func newView(r gvr.Resource, of Selection) (view, error) {
	v := view{resource: r, namespaces: of.Namespaces}
	var err error
	if v.labels, err = labels.Parse(of.Labels); err != nil {
		return v, err
	}
	if v.fields, err = fields.ParseSelector(of.Fields); err == nil && of.Name != "" {
		v.fields = fields.AndSelectors(v.fields, fields.OneTermEqualSelector("metadata.name", of.Name))
	}
	return v, err
}

func (v view) matches(o map[string]any) bool {
	if o == nil {
		return false
	}
	u := unstructured.Unstructured{Object: o}
	if len(v.namespaces) > 0 && !slices.Contains(v.namespaces, u.GetNamespace()) {
		return false
	}
	return v.labels.Matches(labels.Set(u.GetLabels())) && v.fields.Matches(fieldSet{o})
}

// event returns c as this view sees it, or an empty type if it does not. An object that leaves the view is sent in its
// last matching state, with the version at which it left, as in apiserver storage/cacher/cache_watcher.go.
func (v view) event(c *change) (watch.EventType, map[string]any) {
	was, is := v.matches(c.old), v.matches(c.new)
	switch {
	case is && was:
		return watch.Modified, v.render(c.new)
	case is:
		return watch.Added, v.render(c.new)
	case was:
		o := v.render(c.old)
		o["metadata"].(map[string]any)["resourceVersion"] = formatVersion(c.rev)
		return watch.Deleted, o
	}
	return "", nil
}

// render copies a stored object into the form that the view's resource serves.
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

// bookmark returns the object of a BOOKMARK.
func (v view) bookmark(rev int64, endOfInitial bool) map[string]any {
	metadata := map[string]any{"resourceVersion": formatVersion(rev)}
	if endOfInitial {
		metadata["annotations"] = map[string]any{"k8s.io/initial-events-end": "true"}
	}
	return v.render(map[string]any{"metadata": metadata})
}

// fieldSet resolves the dotted paths of field selectors.
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

// parseVersion returns -1 for what is not a version of this server.
func parseVersion(rv string) int64 {
	rev, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		return -1
	}
	return rev
}
