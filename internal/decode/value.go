package decode

// value decodes the value that begins at i, and returns where it ends. That is
// negative if there is none.
func (d *Decoder) value(i int, p *pruned) (any, int) {
	if i >= len(d.data) {
		return nil, d.fail(ErrShort)
	}
	switch c := d.data[i]; c {
	case '"':
		return d.stringValue(i + 1)
	case '{':
		m, i := d.object(i, p)
		return m, i
	case '[':
		l, i := d.list(i)
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
		return d.fail(ErrUnlike)
	case end-i < len(word):
		return d.fail(ErrShort)
	}
	return end
}

// object decodes the object that begins at i, without what p prunes.
func (d *Decoder) object(i int, p *pruned) (map[string]any, int) {
	begin := len(d.pairs)
	if i = d.open(i, '{'); i < 0 {
		return nil, i
	}
	if i < len(d.data) && d.data[i] == '}' {
		d.depth--
		return map[string]any{}, i + 1
	}
	for {
		var key string
		if key, i = d.key(i); i < 0 {
			return nil, i
		}
		if d.depth == 1 && misleading(key) {
			return nil, d.fail(ErrUnlike)
		}
		below, drop := p.at(key)
		if drop {
			i = d.skip(i)
		} else {
			var v any
			v, i = d.value(i, below)
			d.pairs = append(d.pairs, pair{key, v})
		}
		if i < 0 {
			return nil, i
		}
		more := false
		if i, more = d.more(i, '}'); i < 0 {
			return nil, i
		} else if !more {
			break
		}
	}
	d.depth--
	read := d.pairs[begin:]
	m := make(map[string]any, len(read))
	for _, p := range read {
		m[p.key] = p.value // the last one of a name wins
	}
	if d.depth == 0 && len(m) < len(read) {
		return nil, d.fail(ErrUnlike)
	}
	clear(read)
	d.pairs = d.pairs[:begin]
	return m, i
}

func (d *Decoder) list(i int) ([]any, int) {
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
		if v, i = d.value(i, nil); i < 0 {
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
	case d.data[i] != bracket || d.depth == deepest:
		return d.fail(ErrUnlike)
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
	return d.fail(ErrUnlike), false
}

// key returns the key that begins at i, and where its value does.
func (d *Decoder) key(i int) (string, int) {
	switch {
	case i >= len(d.data):
		return "", d.fail(ErrShort)
	case d.data[i] != '"':
		return "", d.fail(ErrUnlike)
	}
	key, i := d.stringKey(i + 1)
	if i < 0 {
		return "", i
	}
	if i = d.colon(i); i < 0 {
		return "", i
	}
	return key, i
}

// colon returns where the value begins whose key ends at i.
func (d *Decoder) colon(i int) int {
	if i = d.space(i); i >= len(d.data) {
		return d.fail(ErrShort)
	}
	if d.data[i] != ':' {
		return d.fail(ErrUnlike)
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
