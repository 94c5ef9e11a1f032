package store

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

// Selection says which objects of a resource a list, a watch or a Log has. The zero Selection is all of them.
type Selection struct {
	Namespaces     []string
	Labels, Fields string // selectors
	Name           string // of one object; empty means any
}

// View is how one list or watch sees the objects of a resource. Without NewView it can only Render.
type View struct {
	Resource   gvr.Resource
	Metadata   bool // PartialObjectMetadata
	namespaces []string
	labels     labels.Selector
	fields     fields.Selector
}

// NewView returns an error for a selector that does not parse.
func NewView(r gvr.Resource, of Selection) (View, error) {
	v := View{Resource: r, namespaces: of.Namespaces}
	var err error
	if v.labels, err = labels.Parse(of.Labels); err != nil {
		return v, err
	}
	if v.fields, err = fields.ParseSelector(of.Fields); err == nil && of.Name != "" {
		v.fields = fields.AndSelectors(v.fields, fields.OneTermEqualSelector("metadata.name", of.Name))
	}
	return v, err
}

// Matches reports whether an object exists, and is selected.
func (v View) Matches(o map[string]any) bool {
	if o == nil {
		return false
	}
	u := unstructured.Unstructured{Object: o}
	if len(v.namespaces) > 0 && !slices.Contains(v.namespaces, u.GetNamespace()) {
		return false
	}
	return v.labels.Matches(labels.Set(u.GetLabels())) && v.fields.Matches(fieldSet{o})
}

// Event returns c as this view sees it, or an empty type if it does not. An object that leaves the view is sent in its
// last matching state, with the version at which it left, as in apiserver storage/cacher/cache_watcher.go.
func (v View) Event(c *Revision) (watch.EventType, map[string]any) {
	was, is := v.Matches(c.old), v.Matches(c.new)
	switch {
	case is && was:
		return watch.Modified, v.Render(c.new)
	case is:
		return watch.Added, v.Render(c.new)
	case was:
		o := v.Render(c.old)
		o["metadata"].(map[string]any)["resourceVersion"] = FormatVersion(c.Number)
		return watch.Deleted, o
	}
	return "", nil
}

// Render copies a stored object into the form that the view's resource serves.
func (v View) Render(o map[string]any) map[string]any {
	out := map[string]any{"metadata": runtime.DeepCopyJSONValue(o["metadata"])}
	if v.Metadata {
		out["apiVersion"], out["kind"] = "meta.k8s.io/v1", "PartialObjectMetadata"
		return out
	}
	for name, value := range o {
		if name != "metadata" {
			out[name] = runtime.DeepCopyJSONValue(value)
		}
	}
	out["apiVersion"], out["kind"] = v.Resource.GroupVersion().String(), v.Resource.Kind
	return out
}

// Bookmark returns the object of a BOOKMARK.
func (v View) Bookmark(rev int64, endOfInitial bool) map[string]any {
	metadata := map[string]any{"resourceVersion": FormatVersion(rev)}
	if endOfInitial {
		metadata["annotations"] = map[string]any{"k8s.io/initial-events-end": "true"}
	}
	return v.Render(map[string]any{"metadata": metadata})
}

// Count returns how many of the items match, unless there is a selector: then a kube-apiserver does not know.
func (v View) Count(items []Item) (n int64, known bool) {
	for _, it := range items {
		if v.Matches(it.Object) {
			n++
		}
	}
	return n, v.labels.Empty() && v.fields.Empty()
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

// FormatVersion returns the resourceVersion of a revision.
func FormatVersion(rev int64) string { return strconv.FormatInt(rev, 10) }

// ParseVersion returns -1 for what is not a version of this server.
func ParseVersion(rv string) int64 {
	rev, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		return -1
	}
	return rev
}
