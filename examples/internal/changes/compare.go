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

const (
	// maxDepth bounds how deep Compare looks for what has changed. Deeper values are compared as a whole.
	maxDepth = 100
	// maxFields bounds how many fields Compare returns.
	maxFields = 1000
	// maxKey is how many bytes of a key a path has: authors of objects choose them.
	maxKey = 256
)

// Compare returns the fields in which two states of an object differ, except managedFields, resourceVersion, generation
// and the annotation in which kubectl apply repeats the object: metadata first, then spec, then others, then status. In
// a list whose elements have a name, or another of listKeys, that no two share, elements are compared with those of
// the same name, and their order does not matter. If more than 1,000 fields differ, the last Field says so.
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
	c.object(nil, before, after, maxDepth)
	found := c.fields[:min(len(c.fields), maxFields)]
	slices.SortStableFunc(found, func(a, b Field) int { return rank(a.Path) - rank(b.Path) })
	if len(c.fields) > maxFields {
		found = append(found, Field{"(more)", "", "(not compared)"})
	}
	return found
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

// place is where a value is. Only that of a change becomes a path, because paths may be much larger than an object.
type place struct {
	in    *place // nil for the object itself
	key   string
	named bool // by a list
}

func (p *place) String() string {
	if p == nil {
		return ""
	}
	path, key := p.in.String(), p.key
	if len(key) > maxKey {
		key = strings.ToValidUTF8(key[:maxKey], "") + "…"
	}
	switch {
	case p.named || key == "" || strings.ContainsAny(key, ".[]/"): // as of a label
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

type comparison struct{ fields []Field }

func (c *comparison) add(at *place, old, now string) {
	c.fields = append(c.fields, Field{at.String(), old, now})
}

// compare adds the differences of two values, of which one may be missing. It goes through them once: to ask first
// whether they are equal would do that again at each level.
func (c *comparison) compare(at *place, before, after *any, depth int) {
	if len(c.fields) > maxFields {
		return
	}
	if before != nil && after != nil {
		switch b := (*before).(type) {
		case map[string]any:
			if a, ok := (*after).(map[string]any); ok && depth > 0 {
				c.object(at, b, a, depth-1)
				return
			}
		case []any:
			if a, ok := (*after).([]any); ok && depth > 0 {
				c.list(at, b, a, depth-1)
				return
			}
		}
		if reflect.DeepEqual(*before, *after) {
			return
		}
	}
	old, now := "", ""
	if before != nil {
		old = text(*before)
	}
	if after != nil {
		now = text(*after)
	}
	if old == now { // the sizes of two values of a Secret
		now += " (changed)"
	}
	c.add(at, old, now)
}

func (c *comparison) object(at *place, before, after map[string]any, depth int) {
	keys := slices.Collect(maps.Keys(before))
	for key := range after {
		if _, ok := before[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		c.compare(&place{at, key, false}, entry(before, key), entry(after, key), depth)
	}
}

func entry[K comparable](m map[K]any, key K) *any {
	v, ok := m[key]
	if !ok {
		return nil
	}
	return &v
}

// list compares two lists: by the names of their elements if they have some, as sets if one has more plain values than
// the other, and otherwise by position.
func (c *comparison) list(at *place, before, after []any, depth int) {
	oldNames, old := named(before)
	newNames, now := named(after)
	if old != nil && now != nil {
		keys := slices.Clone(oldNames)
		for _, key := range newNames {
			if _, ok := old[key]; !ok {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		found := len(c.fields)
		for _, key := range keys {
			c.compare(&place{at, key, true}, entry(old, key), entry(now, key), depth)
		}
		if len(c.fields) == found && !slices.Equal(oldNames, newNames) {
			c.add(at, "", "(other order)")
		}
		return
	}
	if len(before) != len(after) {
		if old, now := plain(before), plain(after); old != nil && now != nil {
			c.set(at, before, now, true)
			c.set(at, after, old, false)
			return
		}
	}
	for i := range max(len(before), len(after)) {
		c.compare(&place{at, strconv.Itoa(i), true}, element(before, i), element(after, i), depth)
	}
}

// set adds the values of a list that another lacks.
func (c *comparison) set(at *place, list []any, other map[any]bool, old bool) {
	for _, v := range list {
		switch {
		case other[v] || len(c.fields) > maxFields:
		case old:
			c.add(at, text(v), "")
		default:
			c.add(at, "", text(v))
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

func element(list []any, i int) *any {
	if i >= len(list) {
		return nil
	}
	return &list[i]
}

// listKeys are the fields by which Kubernetes merges lists.
var listKeys = []string{
	"name", "type", "key", "uid", "ip", "containerPort", "port", "mountPath", "devicePath", "topologyKey",
}

// named returns the elements, and their names in order, by the first of listKeys that all have and that no two share.
// It returns nil if there is none. An empty list has an empty map.
func named(list []any) (names []string, elements map[string]any) {
	if len(list) == 0 {
		return nil, map[string]any{}
	}
	for _, key := range listKeys {
		names, elements = names[:0], map[string]any{}
		for i, one := range list {
			o, _ := one.(map[string]any)
			switch name := o[key].(type) {
			case string, int64:
				names = append(names, fmt.Sprint(name))
				elements[names[len(names)-1]] = one
			}
			if len(elements) <= i {
				break // this one has no name, or that of another
			}
		}
		if len(elements) == len(list) {
			return names, elements
		}
	}
	return nil, nil
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
