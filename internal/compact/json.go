package compact

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// errNotJSON says nothing of the value, which may be secret.
var errNotJSON = errors.New("invalid object: must have nothing but what decoded JSON has")

// maxDepth is how deep maps and slices may be within each other. Package decode, like apimachinery, reads no more.
const maxDepth = 10_000

// AppendJSON appends a value of an unstructured object as JSON from which package decode makes the same value: an
// integer remains an int64, and a float a float64, where encoding/json writes 1.0 as 1. It returns an error for any
// value that JSON would not keep: another type, a nil map or slice, a number that is not finite, a string that is not
// UTF-8.
func AppendJSON(b []byte, value any) ([]byte, error) { return appendJSON(b, value, maxDepth) }

// appendJSON appends a value that is at most so deep.
func appendJSON(b []byte, value any, depth int) ([]byte, error) {
	var err error
	switch v := value.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendString(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case float64:
		return appendFloat(b, v)
	case []any:
		if v == nil || depth == 0 {
			return nil, errNotJSON
		}
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, item, depth-1); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		if v == nil || depth == 0 {
			return nil, errNotJSON
		}
		return appendMap(b, v, depth-1)
	default:
		return nil, errNotJSON
	}
}

// appendMap writes the keys in order, so that equal objects are equal text, and similar ones have much in common.
func appendMap(b []byte, m map[string]any, depth int) ([]byte, error) {
	var few [16]string
	keys := slices.AppendSeq(few[:0], maps.Keys(m))
	slices.Sort(keys)
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendString(b, k); err != nil {
			return nil, err
		}
		if b, err = appendJSON(append(b, ':'), m[k], depth); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return appendUnusual(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), nil
}

func appendUnusual(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errNotJSON
	}
	buffer := bytes.NewBuffer(b)
	e := json.NewEncoder(buffer)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // of a string it cannot fail
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), nil
}

func appendFloat(b []byte, f float64) ([]byte, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, errNotJSON
	}
	begin := len(b)
	b = strconv.AppendFloat(b, f, 'g', -1, 64)
	if !bytes.ContainsAny(b[begin:], ".e") {
		b = append(b, ".0"...)
	}
	return b, nil
}
