// Package size estimates how much memory decoded JSON takes. JSON says little about that: an empty object has two bytes
// as JSON, and 48 as a map.
package size

import (
	"bytes"
	"math/bits"
)

// The sizes of Go's types on 64-bit machines, with the sizes that the allocator rounds to.
const (
	emptyMap = 48
	group    = 288 // eight places of a map[string]any, and their control bytes
	slice    = 24
	value    = 16 // an interface value, or the header of a string
	number   = 8
)

// Of returns the approximate size, in bytes of memory, of a value that was decoded from JSON. Strings that several
// values share count each time.
func Of(v any) int64 {
	switch v := v.(type) {
	case map[string]any:
		size := Map(len(v))
		for k, v := range v {
			size += int64(len(k)) + Of(v)
		}
		return size
	case []any:
		size := List(len(v))
		for _, v := range v {
			size += Of(v)
		}
		return size
	case string:
		return value + int64(len(v))
	case nil, bool:
		return 0
	}
	return number
}

// Map returns the size of a map with n keys, without what the keys and values refer to.
func Map(n int) int64 {
	switch {
	case n == 0:
		return emptyMap
	case n <= 8:
		return emptyMap + group
	}
	// A larger map is at most 7/8 full, and has a power of two of places.
	places := int64(1) << bits.Len(uint(n+n/7))
	return emptyMap + places/8*group
}

// List returns the size of a list of n values, without what the values refer to.
func List(n int) int64 { return slice + value*int64(n) }

// OfJSON returns about how much memory the value takes that JSON text describes, and seldom less. It is fast: it only
// counts, so it works on text that is not JSON, too.
func OfJSON(text []byte) int64 {
	var s Scanner
	s.Add(text)
	return s.Size
}

// Scanner is OfJSON for a text that arrives in parts.
type Scanner struct {
	Size    int64
	text    bool // within a string
	escaped bool // within a string, after a backslash
	opened  bool // after the bracket of a map
}

// Add reads the next part.
func (s *Scanner) Add(part []byte) {
	s.Size += int64(len(part))
	quote := -1 // the next one after i, if it is not before i
	for i := 0; i < len(part); i++ {
		c := part[i]
		switch {
		case s.escaped:
			s.escaped = false
			continue
		case s.text:
			// Most bytes are in strings. Skip up to the next escape or quote.
			if quote < i {
				quote = len(part)
				if n := bytes.IndexByte(part[i:], '"'); n >= 0 {
					quote = i + n
				}
			}
			if n := bytes.IndexByte(part[i:quote], '\\'); n >= 0 {
				i, s.escaped = i+n, true
			} else {
				i, s.text = quote, quote == len(part)
			}
			continue
		case s.opened && c != '}':
			s.Size += group
		}
		s.opened = c == '{'
		switch c {
		case '"':
			s.text = true
			s.Size += value
		case '{':
			s.Size += emptyMap
		case '[':
			s.Size += slice + value
		case ',': // a value in a list, or a place in a map
			s.Size += 2 * group / 8
		}
	}
}
