package decodetest

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Difference says where two decoded values are not the same, or nothing if they
// are: with the same types, nil apart from empty, and 0 from -0.
func Difference(want, got any) string { return difference("", want, got) }

func difference(path string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			break
		}
		return differenceOfMaps(path, want, got)
	case []any:
		got, ok := got.([]any)
		if !ok {
			break
		}
		if len(want) != len(got) || (want == nil) != (got == nil) {
			return fmt.Sprintf("%s: want %d items (nil: %v), got %d (nil: %v)", path, len(want), want == nil, len(got), got == nil)
		}
		for i := range want {
			if d := difference(fmt.Sprintf("%s[%d]", path, i), want[i], got[i]); d != "" {
				return d
			}
		}
		return ""
	case float64:
		if got, ok := got.(float64); ok && math.Float64bits(want) == math.Float64bits(got) {
			return ""
		}
	case string, int64, bool, nil:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s: want %T(%.200v), got %T(%.200v)", path, want, want, got, got)
}

func differenceOfMaps(path string, want, got map[string]any) string {
	if (want == nil) != (got == nil) {
		return fmt.Sprintf("%s: want nil: %v, got nil: %v", path, want == nil, got == nil)
	}
	for k, v := range got {
		if _, ok := want[k]; !ok {
			return fmt.Sprintf("%s.%.200q: want nothing, got %T(%.200v)", path, k, v, v)
		}
	}
	for k, v := range want {
		other, ok := got[k]
		if !ok {
			return fmt.Sprintf("%s.%.200q: want %T(%.200v), got nothing", path, k, v, v)
		}
		if d := difference(fmt.Sprintf("%s.%.200q", path, k), v, other); d != "" {
			return d
		}
	}
	return ""
}

// DifferenceOfLists is Difference for lists.
func DifferenceOfLists(want, got *unstructured.UnstructuredList) string {
	if d := difference("list", want.Object, got.Object); d != "" {
		return d
	}
	if len(want.Items) != len(got.Items) || (want.Items == nil) != (got.Items == nil) {
		return fmt.Sprintf("want %d items (nil: %v), got %d (nil: %v)", len(want.Items), want.Items == nil, len(got.Items), got.Items == nil)
	}
	for i := range want.Items {
		if d := difference(fmt.Sprintf("items[%d]", i), want.Items[i].Object, got.Items[i].Object); d != "" {
			return d
		}
	}
	return ""
}

// Copy is a deep copy that shares no byte of a string either.
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

// Ruin overwrites everything in a decoded value that can be overwritten.
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
