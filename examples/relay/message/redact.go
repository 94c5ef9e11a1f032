package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ohler55/ojg/jp"

	"github.com/gvrwatch/gvrwatch/examples/internal/secrets"
	"github.com/gvrwatch/gvrwatch/internal/size"
)

// redacted replaces values. It is valid base64, so that clients with types can decode a Secret.
const redacted = "REDACTED"

// Redaction replaces values of objects by "REDACTED". It also replaces annotations that may repeat values
// ([secrets.MayRepeat]), and removes managedFields. It takes memory in proportion to the object, and time in proportion
// to the object and the paths, whatever the object's depth. An object that takes more than 64 MiB of memory cannot be
// redacted, nor one with a list of more than 262,144 elements of which a path selects a slice, nor one in which a
// filter compares an object with an object, or a list with a list. Nil does nothing.
type Redaction struct {
	// selectors are those of all paths, one path after the other, each with a nil at its end.
	selectors []jp.Frag
	begins    []int    // indices of the first selector of each path
	texts     []string // the paths
	secret    bool     // hide what secrets.Hide does
}

// ParseRedaction returns a Redaction of the values that the JSONPaths match, such as "$.spec.users[*].password". An
// object or array that matches is replaced as a whole. Each path applies to the object as it was. It returns nil if
// there are no paths.
//
// A filter compares one element with constants and with other values in the element: it has no "$" or "..", at most one
// of its operands stands for several values, and a regular expression in it is between slashes: @.name =~ /token$/.
func ParseRedaction(paths []string) (*Redaction, error) {
	var r *Redaction
	for _, text := range paths {
		path, err := jp.ParseString(text)
		if strings.HasPrefix(text, "{") { // a name for the parser, so that nothing would be redacted
			err = errors.New("without braces, which kubectl has around it")
		}
		if err != nil {
			return nil, fmt.Errorf("parse a redaction: invalid path %q: must be a JSONPath: %w", text, err)
		}
		if len(path) == 0 || !selects(path[len(path)-1]) {
			return nil, fmt.Errorf("parse a redaction: invalid path %q: must end with what to replace", text)
		}
		if problem := checkFilters(path); problem != "" {
			return nil, fmt.Errorf("parse a redaction: invalid path %q: %s", text, problem)
		}
		if r == nil {
			r = &Redaction{}
		}
		r.texts, r.begins = append(r.texts, text), append(r.begins, len(r.selectors))
		r.selectors = append(append(r.selectors, path...), nil)
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

// SecretRedaction returns the Redaction of what [secrets.Hide] hides, and of what other replaces.
func SecretRedaction(other *Redaction) *Redaction {
	r := Redaction{secret: true}
	if other != nil {
		r = *other
		r.secret = true
	}
	return &r
}

// String returns a text that differs where what is replaced may differ. It is empty for nil.
func (r *Redaction) String() string {
	if r == nil {
		return ""
	}
	const rules = 2 // 1 knew one annotation, and no allow-list for Secrets
	return fmt.Sprintf("%d %v %q", rules, r.secret, r.texts)
}

// mostMemory bounds the memory of an object by the estimate of package size. A redaction takes about six times that.
const mostMemory = 64 << 20

var errRedact = errors.New("the object cannot be redacted")

// apply returns the JSON of the redacted object. It is always encoded again: if a key is repeated, only the last value
// was seen by the paths.
func (r *Redaction) apply(object []byte) (out []byte, err error) {
	if r == nil {
		return object, nil
	}
	defer func() {
		if recover() != nil { // a path or jp is wrong, or a list too long
			out, err = nil, errRedact
		}
	}()
	if size.OfJSON(object) > mostMemory {
		return nil, errRedact
	}
	var exact map[string]any
	d := json.NewDecoder(bytes.NewReader(object))
	d.UseNumber()
	if d.Decode(&exact) != nil || exact == nil {
		return nil, errRedact
	}
	if len(r.begins) > 0 {
		active := make([]bool, len(r.selectors))
		for _, i := range r.begins {
			active[i] = true
		}
		r.replace(withNumbers(exact), exact, active)
	}
	if r.secret {
		exact = secrets.Hide(exact, func(string, any) any { return redacted })
	}
	if metadata, ok := exact["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		annotations, _ := metadata["annotations"].(map[string]any)
		for name, value := range annotations {
			if text, ok := value.(string); value != nil && (!ok || secrets.MayRepeat(name, text)) {
				annotations[name] = redacted
			}
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(exact) != nil {
		return nil, errRedact
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// replace replaces what the active selectors lead to within a value. It goes through a value once for all paths,
// because a list of what a recursive path matches can be much larger than the object. original is what selectors see of
// exact.
func (r *Redaction) replace(original, exact any, active []bool) {
	next := choice{everywhere: make([]bool, len(active)), some: map[jp.Frag][]int{}}
	for i, f := range r.selectors {
		if !active[i] {
			continue
		}
		switch f := f.(type) {
		case jp.Root, jp.At, jp.Bracket:
			active[i+1] = true
		case jp.Descent:
			active[i+1], next.everywhere[i] = true, true
		case jp.Wildcard:
			next.everywhere[i+1] = true
		case *jp.Filter:
			next.filters = append(next.filters, i)
		default:
			list, _ := original.([]any)
			if _, isSlice := f.(jp.Slice); isSlice && len(list) > mostListed {
				panic(errRedact)
			}
			for _, found := range (jp.Expr{f}).Locate(original, 0) {
				next.some[found[0]] = append(next.some[found[0]], i+1)
			}
		}
	}
	switch exact := exact.(type) {
	case map[string]any:
		for key, value := range original.(map[string]any) {
			exact[key] = r.replaced(jp.Child(key), value, exact[key], next)
		}
	case []any:
		for i, value := range original.([]any) {
			exact[i] = r.replaced(jp.Nth(i), value, exact[i], next)
		}
	}
}

// mostListed is how long a list may be of which a path selects a slice.
const mostListed = 1 << 18

// choice says which selectors are active in the values of an object or list.
type choice struct {
	everywhere []bool            // in each
	filters    []int             // in those that match, what follows the filter
	some       map[jp.Frag][]int // in those with a key or index
}

// replaced returns what replaces a value: "REDACTED" if it is at the end of a path, or else the value, in which others
// have been replaced.
func (r *Redaction) replaced(at jp.Frag, original, exact any, next choice) any {
	active := slices.Clone(next.everywhere)
	for _, i := range next.some[at] {
		active[i] = true
	}
	for _, i := range next.filters {
		if !active[i+1] && r.selectors[i].(*jp.Filter).Match(original) {
			active[i+1] = true
		}
	}
	some := false
	for i, yes := range active {
		if yes && r.selectors[i] == nil {
			return redacted
		}
		some = some || yes
	}
	switch original.(type) {
	case map[string]any, []any:
		if some {
			r.replace(original, exact, active)
		}
	}
	return exact
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
