package decode

import (
	"maps"

	"github.com/gvrwatch/gvrwatch/internal/size"
)

// value decodes the value that begins at i, and returns where it ends, or a negative position if there is an error.
// under is its key.
func (d *Decoder) value(i int, drop []string, under ref) (any, int) {
	if i >= len(d.data) {
		return nil, d.fail(ErrShort)
	}
	if v, end := d.expected(i, under); end > 0 {
		return v, end
	}
	switch c := d.data[i]; c {
	case '"':
		return d.stringValue(i, under)
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
		return d.number(i, under)
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

// object decodes the object that begins at i, without the field at the path drop.
func (d *Decoder) object(i int, drop []string, under ref) (map[string]any, int) {
	if i = d.open(i, '{'); i < 0 {
		return nil, i
	}
	if i < len(d.data) && d.data[i] == '}' {
		d.depth--
		return map[string]any{}, d.take(size.Map(0), i+1)
	}
	room := d.sizeHint(under, len(d.data)-i)
	m := newMap(room)
	n, before := 0, nothing
	for more := true; more; {
		key, k, at := d.key(i, under, before)
		if i = at; i < 0 {
			return nil, i
		}
		if k != nothing {
			before = k
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
			v, i = d.value(i, below, k)
			m[key] = v // the last of several keys of one name wins
			n++
		}
		if i < 0 {
			return nil, i
		}
		if i < len(d.data) && d.data[i] == ',' {
			i = d.space(i + 1)
		} else if i, more = d.more(i, '}'); i < 0 {
			return nil, i
		}
	}
	d.depth--
	if room > 8 && len(m) < room/2 { // the caller may keep it, so it must not be too large
		wide := m
		m = make(map[string]any, len(wide))
		maps.Copy(m, wide)
	}
	d.entries[under].size = uint8(min(len(m), 255))
	if d.depth == 0 && len(m) < n {
		return nil, d.fail(ErrDeclined)
	}
	return m, d.take(size.Map(len(m)), i)
}

// newMap returns a map with room for n keys.
func newMap(n int) map[string]any {
	if n > 8 { // an empty map has room for 8 keys
		return make(map[string]any, n)
	}
	return map[string]any{}
}

func (d *Decoder) list(i int, under ref) ([]any, int) {
	begin := len(d.items)
	if i = d.open(i, '['); i < 0 {
		return nil, i
	}
	if i < len(d.data) && d.data[i] == ']' {
		d.depth--
		return []any{}, d.take(size.List(0), i+1)
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
	return l, d.take(size.List(len(l)), i)
}

// open returns where the content of a list or an object begins.
func (d *Decoder) open(i int, bracket byte) int {
	if i >= len(d.data) || d.data[i] != bracket || d.depth == maxDepth {
		return d.unexpected(i)
	}
	d.depth++
	return d.space(i + 1)
}

// more returns true and where the next item or member begins, or false and where the list or object ends.
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

// key returns the key that begins at i, its entry if it is in the table, and where its value begins. under is the key
// of its object, and before the last key in that object with an entry.
func (d *Decoder) key(i int, under, before ref) (string, ref, int) {
	if i >= len(d.data) || d.data[i] != '"' {
		return "", nothing, d.unexpected(i)
	}
	expected := d.entries[before].next
	if before == nothing {
		expected = d.entries[under].inner
	}
	if e := &d.entries[expected]; e.kind != numberText && e.begins(d.data[i+1:]) {
		if end := i + 1 + len(e.text); d.data[end] == '"' && d.data[end+1] == ':' {
			e.credited()
			return e.decoded(), expected, d.space(end + 2)
		}
	}
	key, k, i := d.stringKey(i, under)
	switch {
	case i < 0:
		return "", nothing, i
	case k == nothing:
	case before == nothing:
		d.entries[under].inner = k
	default:
		d.entries[before].next = k
	}
	return key, k, d.colon(i)
}

// expected returns the value that begins at i, and where it ends, if it is the string or number that was last under its
// key.
func (d *Decoder) expected(i int, under ref) (any, int) {
	v := d.entries[under].inner
	if v == nothing {
		return nil, -1
	}
	switch e := &d.entries[v]; {
	case e.kind == numberText:
		if end := i + len(e.text); e.begins(d.data[i:]) && endsNumber(d.data[end]) {
			e.credited()
			return e.boxed, end
		}
	case d.data[i] == '"' && e.begins(d.data[i+1:]):
		if end := i + 1 + len(e.text); d.data[end] == '"' {
			e.credited()
			return e.boxed, end + 1
		}
	}
	return nil, -1
}

// endsNumber reports whether a number ends before c. It does not know all that may follow a number.
func endsNumber(c byte) bool { return c == ',' || c == '}' || c == ']' }

// colon returns where the value of the key that ends at i begins.
func (d *Decoder) colon(i int) int {
	if i = d.space(i); i >= len(d.data) || d.data[i] != ':' {
		return d.unexpected(i)
	}
	return d.space(i + 1)
}

// space returns where the white space at i ends, or i if there is none.
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
