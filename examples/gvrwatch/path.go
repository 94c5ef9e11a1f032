package main

import (
	"errors"
	"reflect"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"github.com/gvrwatch/gvrwatch/internal/size"
)

// objectPath is a JSONPath of kubectl, whose values can be found in an object, or removed from it.
type objectPath struct {
	text   string // in braces
	parent string // the path of what has the last field; in braces, empty if nothing can be removed
	field  string // the last field, empty for all of them
}

// parsePath parses a JSONPath. Braces and the first dot may be missing, as in kubectl.
func parsePath(text string) (objectPath, error) {
	trimmed := strings.TrimSpace(text)
	if strings.Trim(trimmed, "{}.") == "" {
		return objectPath{}, errors.New("must be a JSONPath, such as .status.phase")
	}
	p := objectPath{text: braced(trimmed)}
	root, err := jsonpath.Parse("path", p.text)
	if err != nil {
		return objectPath{}, err
	}
	if len(root.Root.Nodes) != 1 || strings.Contains(trimmed, "{range") {
		return objectPath{}, errors.New("must be one path, without text around it")
	}
	p.parent, p.field = splitPath(strings.TrimSuffix(strings.TrimPrefix(p.text, "{"), "}"))
	if p.parent != "" {
		if _, err := jsonpath.Parse("path", p.parent); err != nil {
			p.parent = ""
		}
	}
	return p, nil
}

// splitPath splits a path without braces before its last step: .a.b is {.a} and b, .a[*] is {.a} and nothing. The
// parent is empty if the last step is neither a field nor all fields.
func splitPath(path string) (parent, field string) {
	last, depth := -1, 0
	quote := byte(0)
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case depth > 0 && (c == '\'' || c == '"'):
			quote = c
		case c == '[':
			if depth == 0 {
				last = i
			}
			depth++
		case c == ']':
			depth--
		case c == '.' && depth == 0:
			last = i
		}
	}
	if last < 0 {
		return "", ""
	}
	parent, step := path[:last], path[last:]
	switch {
	case step == "[*]", step == ".*":
	case strings.HasPrefix(step, "['") && strings.HasSuffix(step, "']"):
		field = step[2 : len(step)-2]
	case strings.HasPrefix(step, "."):
		field = step[1:]
	default:
		return "", ""
	}
	field = strings.ReplaceAll(field, `\`, "")
	if strings.HasSuffix(parent, ".") { // ..field
		parent += "."
	}
	if parent == "" || parent == "$" {
		parent = "$"
	}
	return "{" + parent + "}", field
}

// removes reports whether remove can remove the values.
func (p objectPath) removes() bool { return p.parent != "" }

// find returns the values in an object. There are none if the path does not fit it. It reports false if the object is
// too deep or too large for the path.
func (p objectPath) find(object map[string]any) (values []any, ok bool) {
	found, ok := find(p.text, object)
	for _, v := range found {
		values = append(values, v.Interface())
	}
	return values, ok
}

// remove removes the values from an object.
func (p objectPath) remove(object map[string]any) {
	found, _ := find(p.parent, object)
	for _, v := range found {
		switch parent := v.Interface().(type) {
		case map[string]any:
			if p.field == "" {
				clear(parent)
			}
			delete(parent, p.field)
		case []any:
			if p.field == "" {
				clear(parent)
			}
		}
	}
}

// find parses the path each time, because an evaluation may change what was parsed.
func find(text string, object map[string]any) (all []reflect.Value, ok bool) {
	if size.TooDeep(object, strings.Count(text, "..")) {
		return nil, false
	}
	j := jsonpath.New("path").AllowMissingKeys(true)
	if j.Parse(text) != nil {
		return nil, true
	}
	results, err := j.FindResults(object)
	if err != nil {
		return nil, true
	}
	if isTooLarge(results) {
		return nil, false
	}
	for _, list := range results {
		for _, v := range list {
			if v.IsValid() && v.CanInterface() {
				all = append(all, v)
			}
		}
	}
	return all, true
}
