package decode

import (
	"maps"
)

// value decodes the value that begins at i, and returns where it ends. That is
// negative if there is none. under is the key that it has, if that is interned.
func (d *Decoder) value(i int, drop []string, under *entry) (any, int) {
	if i >= len(d.data) {
		return nil, d.fail(ErrShort)
	}
	switch c := d.data[i]; c {
	case '"':
		return d.stringValue(i + 1)
	case '{':
		m, i := d.object(i, drop, under)
		return m, i
	case '[':
		l, i := d.list(i, under)
		return l, i
	case 't':
		return true, d.literal(i, "true")
	case 'f':
		return false, d.literal(i, "false")
	case 'n':
		return nil, d.literal(i, "null")
	default:
		return d.number(i)
	}
}

func (d *Decoder) literal(i int, word string) int {
	end := min(i+len(word), len(d.data))
	switch {
	case string(d.data[i:end]) != word[:end-i]:
		return d.fail(ErrDeclined)
	case end-i < len(word):
		return d.fail(ErrShort)
	}
	return end
}

// object decodes the object that begins at i, without the field whose path is drop.
func (d *Decoder) object(i int, drop []string, under *entry) (map[string]any, int) {
	if i = d.open(i, '{'); i < 0 {
		return nil, i
	}
	if i < len(d.data) && d.data[i] == '}' {
		d.depth--
		return map[string]any{}, i + 1
	}
	m, room := map[string]any(nil), under.hint(len(d.data)-i)
	if room > 8 { // a small map has room for 8 by itself
		m = make(map[string]any, room)
	} else {
		m = map[string]any{}
	}
	n := 0
	for more := true; more; {
		key, e, at := d.key(i)
		if i = at; i < 0 {
			return nil, i
		}
		if d.depth == 1 && misleading(key) {
			return nil, d.fail(ErrDeclined)
		}
		var below []string
		if len(drop) > 0 && key == drop[0] {
			below = drop[1:]
		}
		if below != nil && len(below) == 0 {
			i = d.skip(i)
		} else {
			var v any
			v, i = d.value(i, below, e)
			m[key] = v // the last one of a name wins
			n++
		}
		if i < 0 {
			return nil, i
		}
		if i, more = d.more(i, '}'); i < 0 {
			return nil, i
		}
	}
	d.depth--
	if room > 8 && len(m) < room/2 { // it may be kept, whatever the last one was like
		wide := m
		m = make(map[string]any, len(wide))
		maps.Copy(m, wide)
	}
	if under != nil {
		under.size = uint8(min(len(m), 255))
	}
	if d.depth == 0 && len(m) < n {
		return nil, d.fail(ErrDeclined)
	}
	return m, i
}

func (d *Decoder) list(i int, under *entry) ([]any, int) {
	begin := len(d.items)
	if i = d.open(i, '['); i < 0 {
		return nil, i
	}
	if i < len(d.data) && d.data[i] == ']' {
		d.depth--
		return []any{}, i + 1
	}
	for more := true; more; {
		var v any
		if v, i = d.value(i, nil, under); i < 0 {
			return nil, i
		}
		d.items = append(d.items, v)
		if i, more = d.more(i, ']'); i < 0 {
			return nil, i
		}
	}
	d.depth--
	read := d.items[begin:]
	l := make([]any, len(read))
	copy(l, read)
	clear(read)
	d.items = d.items[:begin]
	return l, i
}

// open returns where the first thing within a list or an object is.
func (d *Decoder) open(i int, bracket byte) int {
	switch {
	case i >= len(d.data):
		return d.fail(ErrShort)
	case d.data[i] != bracket || d.depth == maxDepth:
		return d.fail(ErrDeclined)
	}
	d.depth++
	return d.space(i + 1)
}

// more returns where the next thing within a list or an object is, or where that
// ends.
func (d *Decoder) more(i int, bracket byte) (int, bool) {
	if i = d.space(i); i >= len(d.data) {
		return d.fail(ErrShort), false
	}
	switch d.data[i] {
	case ',':
		return d.space(i + 1), true
	case bracket:
		return i + 1, false
	}
	return d.fail(ErrDeclined), false
}

// key returns the key that begins at i, where it is interned, if it is, and where
// its value begins.
func (d *Decoder) key(i int) (string, *entry, int) {
	switch {
	case i >= len(d.data):
		return "", nil, d.fail(ErrShort)
	case d.data[i] != '"':
		return "", nil, d.fail(ErrDeclined)
	}
	key, e, i := d.stringKey(i + 1)
	if i < 0 {
		return "", nil, i
	}
	return key, e, d.colon(i)
}

// colon returns where the value begins whose key ends at i.
func (d *Decoder) colon(i int) int {
	if i = d.space(i); i >= len(d.data) {
		return d.fail(ErrShort)
	}
	if d.data[i] != ':' {
		return d.fail(ErrDeclined)
	}
	return d.space(i + 1)
}

// space returns where the white space ends that may be at i.
func (d *Decoder) space(i int) int {
	for i < len(d.data) && d.data[i] <= ' ' {
		switch d.data[i] {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}
