package mux

import "github.com/gvrwatch/gvrwatch/stream"

// controlSize is what an event without an object counts for, and the rest of one
// that has an object.
const controlSize = 100

// sizeOf is how many bytes an event would take as JSON, more or less: strings are
// taken as they are, without what would be escaped. In memory it takes several
// times that.
func sizeOf(ev *stream.Event) int64 {
	size := int64(controlSize)
	if ev.Object != nil {
		size += sizeOfValue(ev.Object.Object)
	}
	return size
}

func sizeOfValue(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v)) + 2
	case map[string]any:
		size := int64(2)
		for k, v := range v {
			size += int64(len(k)) + 4 + sizeOfValue(v)
		}
		return size
	case []any:
		size := int64(2)
		for _, v := range v {
			size += 1 + sizeOfValue(v)
		}
		return size
	}
	return 5 // a number, true, false or null
}
