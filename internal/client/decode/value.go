package decode

import (
	"maps"

	"github.com/gvrwatch/gvrwatch/internal/size"
)

// value decodes the value that begins at i, and returns where it ends, or a negative position if there is an error.
// under is its key.
func (p *parser) value(i int, drop []string, under ref) (any, int) {
	if i >= len(p.in.data) {
		return nil, p.in.fail(ErrShort)
	}
	if v, end := p.expected(i, under); end > 0 {
		return v, end
	}
	switch c := p.in.data[i]; c {
	case '"':
		return p.stringValue(i, under)
	case '{':
		m, i := p.object(i, drop, under)
		return m, i
	case '[':
		l, i := p.list(i, under)
		return l, i
	case 't':
		return true, p.in.literal(i, "true")
	case 'f':
		return false, p.in.literal(i, "false")
	case 'n':
		return nil, p.in.literal(i, "null")
	default:
		return p.number(i, under)
	}
}

// object decodes the object that begins at i, without the field at the path drop.
func (p *parser) object(i int, drop []string, under ref) (map[string]any, int) {
	if i = p.in.open(i, '{'); i < 0 {
		return nil, i
	}
	if i < len(p.in.data) && p.in.data[i] == '}' {
		p.in.depth--
		return map[string]any{}, p.in.take(size.Map(0), i+1)
	}
	room := p.table.sizeHint(under, len(p.in.data)-i)
	m := newMap(room)
	n, before := 0, nothing
	for more := true; more; {
		key, k, at := p.key(i, under, before)
		if i = at; i < 0 {
			return nil, i
		}
		if k != nothing {
			before = k
		}
		if p.in.depth == 1 && misleading(key) {
			return nil, p.in.fail(ErrDeclined)
		}
		var below []string
		if len(drop) > 0 && key == drop[0] {
			below = drop[1:]
		}
		if below != nil && len(below) == 0 {
			i = p.in.skip(i)
		} else {
			var v any
			v, i = p.value(i, below, k)
			m[key] = v // the last of several keys of one name wins
			n++
		}
		if i < 0 {
			return nil, i
		}
		if i < len(p.in.data) && p.in.data[i] == ',' {
			i = p.in.space(i + 1)
		} else if i, more = p.in.more(i, '}'); i < 0 {
			return nil, i
		}
	}
	p.in.depth--
	if room > 8 && len(m) < room/2 { // the caller may keep it, so it must not be too large
		wide := m
		m = make(map[string]any, len(wide))
		maps.Copy(m, wide)
	}
	p.table.entries[under].size = uint8(min(len(m), 255))
	if p.in.depth == 0 && len(m) < n {
		return nil, p.in.fail(ErrDeclined)
	}
	return m, p.in.take(size.Map(len(m)), i)
}

// newMap returns a map with room for n keys.
func newMap(n int) map[string]any {
	if n > 8 { // an empty map has room for 8 keys
		return make(map[string]any, n)
	}
	return map[string]any{}
}

func (p *parser) list(i int, under ref) ([]any, int) {
	begin := len(p.items)
	if i = p.in.open(i, '['); i < 0 {
		return nil, i
	}
	if i < len(p.in.data) && p.in.data[i] == ']' {
		p.in.depth--
		return []any{}, p.in.take(size.List(0), i+1)
	}
	for more := true; more; {
		var v any
		if v, i = p.value(i, nil, under); i < 0 {
			return nil, i
		}
		p.items = append(p.items, v)
		if i, more = p.in.more(i, ']'); i < 0 {
			return nil, i
		}
	}
	p.in.depth--
	read := p.items[begin:]
	l := make([]any, len(read))
	copy(l, read)
	clear(read)
	p.items = p.items[:begin]
	return l, p.in.take(size.List(len(l)), i)
}

// key returns the key that begins at i, its entry if it is in the table, and where its value begins. under is the key
// of its object, and before the last key in that object with an entry.
func (p *parser) key(i int, under, before ref) (string, ref, int) {
	if i >= len(p.in.data) || p.in.data[i] != '"' {
		return "", nothing, p.in.unexpected(i)
	}
	expected := p.table.entries[before].next
	if before == nothing {
		expected = p.table.entries[under].inner
	}
	if e := &p.table.entries[expected]; e.kind != numberText && e.begins(p.in.data[i+1:]) {
		if end := i + 1 + len(e.text); p.in.data[end] == '"' && p.in.data[end+1] == ':' {
			e.credited()
			return e.decoded(), expected, p.in.space(end + 2)
		}
	}
	key, k, i := p.stringKey(i, under)
	switch {
	case i < 0:
		return "", nothing, i
	case k == nothing:
	case before == nothing:
		p.table.entries[under].inner = k
	default:
		p.table.entries[before].next = k
	}
	return key, k, p.in.colon(i)
}

// expected returns the value that begins at i, and where it ends, if it is the string or number that was last under its
// key.
func (p *parser) expected(i int, under ref) (any, int) {
	v := p.table.entries[under].inner
	if v == nothing {
		return nil, -1
	}
	switch e := &p.table.entries[v]; {
	case e.kind == numberText:
		if end := i + len(e.text); e.begins(p.in.data[i:]) && endsNumber(p.in.data[end]) {
			e.credited()
			return e.boxed, end
		}
	case p.in.data[i] == '"' && e.begins(p.in.data[i+1:]):
		if end := i + 1 + len(e.text); p.in.data[end] == '"' {
			e.credited()
			return e.boxed, end + 1
		}
	}
	return nil, -1
}

// endsNumber reports whether a number ends before c. It does not know all that may follow a number.
func endsNumber(c byte) bool { return c == ',' || c == '}' || c == ']' }
