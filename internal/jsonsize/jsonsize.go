// Package jsonsize says how large an object is, for bounds on what is kept.
package jsonsize

// Of is how many bytes v, as client-go decodes objects, would take as JSON, more or
// less: strings are taken as they are, without what would be escaped. In memory it
// takes several times that.
func Of(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v)) + 2
	case map[string]any:
		size := int64(2)
		for k, v := range v {
			size += int64(len(k)) + 4 + Of(v)
		}
		return size
	case []any:
		size := int64(2)
		for _, v := range v {
			size += 1 + Of(v)
		}
		return size
	}
	return 5 // a number, true, false or null
}
