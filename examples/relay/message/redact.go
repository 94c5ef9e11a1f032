package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ohler55/ojg/jp"
)

// redacted replaces values. It is valid base64, so that clients with types can decode a Secret.
const redacted = "REDACTED"

// Redaction replaces values of objects by "REDACTED". It also replaces the annotation of kubectl apply, and removes
// managedFields: both may repeat values. Nil does nothing.
type Redaction struct{ paths []jp.Expr }

// ParseRedaction returns a Redaction of the values that the JSONPaths match, such as "$.spec.users[*].password". An
// object or array that matches is replaced as a whole. Each path applies to the object as it was. It returns nil if
// there are no paths.
func ParseRedaction(paths []string) (*Redaction, error) {
	var r *Redaction
	for _, text := range paths {
		path, err := jp.ParseString(text)
		if err != nil {
			return nil, fmt.Errorf("parse a redaction: invalid path %q: must be a JSONPath: %w", text, err)
		}
		if len(path) == 0 || !selects(path[len(path)-1]) {
			return nil, fmt.Errorf("parse a redaction: invalid path %q: must end with what to replace", text)
		}
		if r == nil {
			r = &Redaction{paths: []jp.Expr{jp.R().C("metadata").C("annotations").C(lastApplied)}}
		}
		r.paths = append(r.paths, path)
	}
	return r, nil
}

// selects reports whether a path can end with f.
func selects(f jp.Frag) bool {
	switch f.(type) {
	case jp.Child, jp.Nth, jp.Wildcard, jp.Union, jp.Slice, *jp.Filter:
		return true
	}
	return false
}

// SecretRedaction returns the Redaction of the data of Secrets, and of what other replaces.
func SecretRedaction(other *Redaction) *Redaction {
	r, err := ParseRedaction([]string{"$.data[*]", "$.stringData[*]"})
	if err != nil {
		panic(err) // constants
	}
	if other != nil {
		r.paths = append(r.paths, other.paths...)
	}
	return r
}

var errRedact = errors.New("the object cannot be redacted")

// apply returns the JSON of the redacted object. It is always encoded again: if a key is repeated, only the last value
// was seen by the paths.
func (r *Redaction) apply(object []byte) (out []byte, err error) {
	if r == nil {
		return object, nil
	}
	defer func() {
		if recover() != nil { // a path or jp is wrong
			out, err = nil, errRedact
		}
	}()
	var exact map[string]any
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	if d.Decode(&exact) != nil || exact == nil {
		return nil, errRedact
	}
	original := withNumbers(exact)
	for _, path := range r.paths {
		for _, at := range path.Locate(original, 0) {
			if !replace(exact, at) {
				return nil, errRedact
			}
		}
	}
	if metadata, ok := exact["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(exact) != nil {
		return nil, errRedact
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// withNumbers returns a copy with numbers that filters of paths can compare. They may lose digits.
func withNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for key, value := range v {
			c[key] = withNumbers(value)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, value := range v {
			c[i] = withNumbers(value)
		}
		return c
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64() // infinite if it is too large
		return f
	}
	return v
}

// replace replaces a value. It returns false if there is none, unless something around it is replaced.
func replace(node any, at jp.Expr) bool {
	for i, f := range at {
		if node == redacted {
			return true
		}
		last := i == len(at)-1
		switch f := f.(type) {
		case jp.Root, jp.At, jp.Bracket:
			continue
		case jp.Child:
			m, ok := node.(map[string]any)
			if !ok {
				return false
			}
			if node = m[string(f)]; last {
				m[string(f)] = redacted
				return true
			}
		case jp.Nth:
			list, ok := node.([]any)
			if !ok || int(f) < 0 || int(f) >= len(list) {
				return false
			}
			if node = list[f]; last {
				list[f] = redacted
				return true
			}
		default:
			return false
		}
	}
	return false
}
