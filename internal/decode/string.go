package decode

import "strings"

// stringKey returns the string whose content begins at i, where it is interned, if
// it is, and where what follows it is.
func (d *Decoder) stringKey(i int) (string, *entry, int) {
	if w, n := d.short(i); n > 0 {
		e, h := d.strings.at(w, n)
		if !e.is(w, n) && !d.admit(e, h, d.data[i:i+n]) {
			return d.own(d.data[i : i+n]), nil, i + n + 1
		}
		return e.text, e, i + n + 1
	}
	s, end := d.content(i)
	if end < 0 {
		return "", nil, end
	}
	if len(s) == 0 || len(s) > longest {
		return d.own(s), nil, end
	}
	e, h := d.strings.find(s)
	if !e.has(s) && !d.admit(e, h, s) {
		return d.own(s), nil, end
	}
	return e.text, e, end
}

// stringValue is stringKey for a value.
func (d *Decoder) stringValue(i int) (any, int) {
	if w, n := d.short(i); n > 0 {
		e, h := d.strings.at(w, n)
		if !e.is(w, n) && !d.admit(e, h, d.data[i:i+n]) {
			return d.own(d.data[i : i+n]), i + n + 1
		}
		return e.boxed, i + n + 1
	}
	s, end := d.content(i)
	if end < 0 {
		return nil, end
	}
	if len(s) == 0 || len(s) > longest {
		return d.own(s), end
	}
	e, h := d.strings.find(s)
	if !e.has(s) && !d.admit(e, h, s) {
		return d.own(s), end
	}
	return e.boxed, end
}

func (d *Decoder) admit(e *entry, h uint32, s []byte) bool {
	if !e.wants(h) {
		return false
	}
	text := string(s)
	e.give(text, text)
	return true
}

// content returns what a string stands for, in memory that may change.
func (d *Decoder) content(i int) ([]byte, int) {
	end, plain := d.quoted(i)
	if end < 0 {
		return nil, end
	}
	s := d.data[i:end]
	if !plain {
		var ok bool
		if s, ok = d.text(s); !ok {
			return nil, -1
		}
	}
	return s, end + 1
}

// own returns a string of its own. The short ones of an object are in one block
// of memory, or a few.
func (d *Decoder) own(s []byte) string {
	n := len(s)
	if n > biggestBlock/8 {
		return string(s)
	}
	if d.block.Cap()-d.block.Len() < n {
		d.block = strings.Builder{}
		d.block.Grow(min(max(d.expect-d.used, n, 64), biggestBlock))
	}
	d.used += n
	begin := d.block.Len()
	d.block.Write(s)
	return d.block.String()[begin:]
}
