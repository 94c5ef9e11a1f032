package changes

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gvrwatch/gvrwatch/examples/internal/secrets"
)

// Field is a field that has changed. Old or New is empty if the field did not exist before, or does not any more.
type Field struct {
	Path     string // such as spec.replicas, metadata.labels[app.example.com/name] or status.conditions[Ready].status
	Old, New string // as text: strings without quotes where that is clear, other values as JSON
}

// hidden are the fields of metadata that change with each write and say nothing about the object.
var hidden = []string{"managedFields", "resourceVersion", "generation"}

// lastApplied is an annotation that repeats the object, Secrets included.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// maxDepth bounds how deep Compare looks for what has changed. Deeper values are compared as a whole.
const maxDepth = 100

// Compare returns the fields in which two states of an object differ, except managedFields, resourceVersion, generation
// and the annotation in which kubectl apply repeats the object: metadata first, then spec, then others, then status. In
// a list whose elements have a name, or another of listKeys, that no two share, elements are compared with those of
// the same name, and their order does not matter.
//
// Of a Secret only what [secrets.Hide] keeps is shown, and the sizes of other values.
func Compare(before, after map[string]any) []Field {
	return compare(before, after, isSecret(before) || isSecret(after))
}

func isSecret(o map[string]any) bool { return o["kind"] == "Secret" && o["apiVersion"] == "v1" }

func compare(before, after map[string]any, secret bool) []Field {
	before, after = visible(before), visible(after)
	if secret {
		before, after = secrets.Hide(before, hide), secrets.Hide(after, hide)
	}
	c := &comparison{}
	c.object("", before, after, maxDepth)
	slices.SortStableFunc(c.fields, func(a, b Field) int { return rank(a.Path) - rank(b.Path) })
	return c.fields
}

// visible returns the object without hidden fields.
func visible(o map[string]any) map[string]any {
	metadata, ok := o["metadata"].(map[string]any)
	if !ok {
		return o
	}
	metadata = maps.Clone(metadata)
	for _, name := range hidden {
		delete(metadata, name)
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		annotations = maps.Clone(annotations)
		delete(annotations, lastApplied)
		metadata["annotations"] = annotations
	}
	o = maps.Clone(o)
	o["metadata"] = metadata
	return o
}

func rank(path string) int {
	switch path[:max(0, strings.IndexAny(path+".", ".["))] {
	case "metadata":
		return 0
	case "spec":
		return 1
	case "status":
		return 3
	}
	return 2
}

type comparison struct{ fields []Field }

// compare adds the differences of two values, of which one may be missing.
func (c *comparison) compare(path string, before, after *any, depth int) {
	if before != nil && after != nil {
		if reflect.DeepEqual(*before, *after) {
			return
		}
		switch b := (*before).(type) {
		case map[string]any:
			if a, ok := (*after).(map[string]any); ok && depth > 0 {
				c.object(path, b, a, depth-1)
				return
			}
		case []any:
			if a, ok := (*after).([]any); ok && depth > 0 {
				c.list(path, b, a, depth-1)
				return
			}
		}
	}
	f := Field{Path: path}
	if before != nil {
		f.Old = text(*before)
	}
	if after != nil {
		f.New = text(*after)
	}
	if f.Old == f.New { // the sizes of two values of a Secret
		f.New += " (changed)"
	}
	c.fields = append(c.fields, f)
}

func (c *comparison) object(path string, before, after map[string]any, depth int) {
	keys := slices.Collect(maps.Keys(before))
	for key := range after {
		if _, ok := before[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		c.compare(join(path, key), entry(before, key), entry(after, key), depth)
	}
}

func entry[K comparable](m map[K]any, key K) *any {
	v, ok := m[key]
	if !ok {
		return nil
	}
	return &v
}

// join appends a key to a path. A key with a dot, as of a label, is between brackets.
func join(path, key string) string {
	switch {
	case key == "" || strings.ContainsAny(key, ".[]") || strings.ContainsRune(key, '/'):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// list compares two lists: by the names of their elements if they have some, as sets if one has more plain values than
// the other, and otherwise by position.
func (c *comparison) list(path string, before, after []any, depth int) {
	if old, names := named(before), named(after); old != nil && names != nil {
		keys := slices.Collect(maps.Keys(old))
		for key := range names {
			if _, ok := old[key]; !ok {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		found := len(c.fields)
		for _, key := range keys {
			c.compare(path+"["+key+"]", entry(old, key), entry(names, key), depth)
		}
		if len(c.fields) == found { // they differ in their order alone
			c.fields = append(c.fields, Field{path, "", "(other order)"})
		}
		return
	}
	if old, now := plain(before), plain(after); len(before) != len(after) && old != nil && now != nil {
		c.set(path, before, now, true)
		c.set(path, after, old, false)
		return
	}
	for i := range max(len(before), len(after)) {
		c.compare(path+"["+strconv.Itoa(i)+"]", at(before, i), at(after, i), depth)
	}
}

// set adds the values of a list that another lacks.
func (c *comparison) set(path string, list []any, other map[any]bool, old bool) {
	for _, v := range list {
		f := Field{Path: path}
		if old {
			f.Old = text(v)
		} else {
			f.New = text(v)
		}
		if !other[v] {
			c.fields = append(c.fields, f)
		}
	}
}

// plain returns the values of a list if they are plain, and no two are the same; otherwise nil.
func plain(list []any) map[any]bool {
	values := map[any]bool{}
	for _, v := range list {
		switch v.(type) {
		case map[string]any, []any:
			return nil
		}
		values[v] = true
	}
	if len(values) < len(list) {
		return nil
	}
	return values
}

func at(list []any, i int) *any {
	if i >= len(list) {
		return nil
	}
	return &list[i]
}

// listKeys are the fields by which Kubernetes merges lists.
var listKeys = []string{
	"name", "type", "key", "uid", "ip", "containerPort", "port", "mountPath", "devicePath", "topologyKey",
}

// named returns the elements by the first of listKeys that all have and that no two share. It returns nil if there
// is none. An empty list has an empty map.
func named(list []any) map[string]any {
	if len(list) == 0 {
		return map[string]any{}
	}
	for _, key := range listKeys {
		all := make(map[string]any, len(list))
		for _, element := range list {
			o, _ := element.(map[string]any)
			switch name := o[key].(type) {
			case string, int64:
				all[fmt.Sprint(name)] = element
			}
		}
		if len(all) == len(list) {
			return all
		}
	}
	return nil
}

// text returns a value as text.
func text(v any) string {
	switch v := v.(type) {
	case secretValue:
		return v.String()
	case string:
		if v == "" || strings.TrimSpace(v) != v || json.Valid([]byte(v)) || strings.ContainsAny(v, "\n\"→") {
			return quoted(v)
		}
		return v
	}
	return quoted(v)
}

func quoted(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "(no JSON)"
	}
	return string(b)
}

// secretValue is a value that is not shown.
type secretValue struct {
	value  any
	base64 bool
}

func hide(field string, value any) any { return secretValue{value, field == "data"} }

// String describes the value without showing it.
func (h secretValue) String() string {
	text, ok := h.value.(string)
	switch {
	case !ok:
		return "(hidden)"
	case h.base64:
		return fmt.Sprintf("(%d bytes)", base64.StdEncoding.DecodedLen(len(text))-strings.Count(text, "="))
	}
	return fmt.Sprintf("(%d bytes)", len(text))
}

// MarshalJSON is for a map that has appeared or gone as a whole.
func (h secretValue) MarshalJSON() ([]byte, error) { return json.Marshal(h.String()) }
