package decode

// skip returns where the value ends that begins at i. It takes what value takes,
// and builds nothing.
func (d *Decoder) skip(i int) int {
	if i >= len(d.data) {
		return d.fail(ErrShort)
	}
	switch c := d.data[i]; c {
	case '"':
		return d.skipString(i + 1)
	case '{':
		return d.skipAll(i, '{', '}')
	case '[':
		return d.skipAll(i, '[', ']')
	case 't':
		return d.literal(i, "true")
	case 'f':
		return d.literal(i, "false")
	case 'n':
		return d.literal(i, "null")
	}
	end, float := d.digits(i)
	if end >= 0 && (float || end-i > 300) {
		if v, _ := d.parsed(d.data[i:end], float, end); v == nil {
			return -1
		}
	}
	return end
}

func (d *Decoder) skipString(i int) int {
	end, plain := d.quoted(i)
	if end < 0 {
		return end
	}
	if !plain {
		if _, ok := d.text(d.data[i:end]); !ok {
			return -1
		}
	}
	return end + 1
}

func (d *Decoder) skipAll(i int, open, shut byte) int {
	if i = d.open(i, open); i < 0 {
		return i
	}
	if i < len(d.data) && d.data[i] == shut {
		d.depth--
		return i + 1
	}
	for more := true; more; {
		if open == '{' {
			if i = d.skipKey(i); i < 0 {
				return i
			}
		}
		if i = d.skip(i); i < 0 {
			return i
		}
		if i, more = d.more(i, shut); i < 0 {
			return i
		}
	}
	d.depth--
	return i
}

func (d *Decoder) skipKey(i int) int {
	switch {
	case i >= len(d.data):
		return d.fail(ErrShort)
	case d.data[i] != '"':
		return d.fail(ErrUnlike)
	}
	if i = d.skipString(i + 1); i < 0 {
		return i
	}
	return d.colon(i)
}
