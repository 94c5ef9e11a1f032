package decodetest

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Difference returns the difference between two decoded values, or "" if they are the same. Types count, and so do nil
// or empty, and 0 or -0.
func Difference(want, got any) string {
	if same(want, got) {
		return ""
	}
	return fmt.Sprintf("want %.300v, got %.300v (-want +got) %.3000s", want, got, cmp.Diff(want, got))
}

func same(want, got any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		return ok && (want == nil) == (got == nil) && maps.EqualFunc(want, got, same)
	case []any:
		got, ok := got.([]any)
		return ok && (want == nil) == (got == nil) && slices.EqualFunc(want, got, same)
	case float64:
		got, ok := got.(float64)
		return ok && math.Float64bits(want) == math.Float64bits(got)
	case string, int64, bool, nil:
		return want == got
	}
	return false
}

// DifferenceOfLists is Difference for lists.
func DifferenceOfLists(want, got *unstructured.UnstructuredList) string {
	if d := Difference(want.Object, got.Object); d != "" {
		return d
	}
	if len(want.Items) != len(got.Items) || (want.Items == nil) != (got.Items == nil) {
		return fmt.Sprintf("want %d items (nil: %v), got %d (nil: %v)", len(want.Items), want.Items == nil,
			len(got.Items), got.Items == nil)
	}
	for i := range want.Items {
		if d := Difference(want.Items[i].Object, got.Items[i].Object); d != "" {
			return fmt.Sprintf("item %d: %s", i, d)
		}
	}
	return ""
}

// Copy returns a deep copy, which does not share the bytes of strings either.
func Copy[V any](v V) V { return copied(v).(V) }

func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		m := make(map[string]any, len(v))
		for key, value := range v {
			m[string([]byte(key))] = copied(value)
		}
		return m
	case []any:
		l := slices.Clone(v)
		for i := range l {
			l[i] = copied(l[i])
		}
		return l
	case string:
		return string([]byte(v))
	}
	return v
}

// Ruin overwrites all maps and lists of a decoded value.
func Ruin(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			Ruin(value)
			v[key] = "ruined"
		}
		v["ruined"] = true
	case []any:
		for i := range v {
			Ruin(v[i])
			v[i] = "ruined"
		}
	}
}
