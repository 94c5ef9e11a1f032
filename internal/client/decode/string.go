package decode

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// stringKey returns the key that begins at i, its entry if it is in the table, and where it ends. under is the key of
// its object.
func (d *Decoder) stringKey(i int, under ref) (string, ref, int) {
	k, s, i := d.lookUp(i, under)
	if k != nothing {
		return d.entries[k].decoded(), k, i
	}
	return d.own(s), nothing, i
}

// stringValue returns the string that begins at i, as an interface value, and where it ends. under is its key.
func (d *Decoder) stringValue(i int, under ref) (any, int) {
	v, s, i := d.lookUp(i, nothing)
	d.entries[under].inner = v
	if v != nothing {
		return d.entries[v].boxed, i
	}
	return d.own(s), i
}

// lookUp returns the entry of the string that begins at i, and where the string ends. If it is not in the table, lookUp
// returns the text, in memory that may change. If the string is a key, under is the key of its object.
func (d *Decoder) lookUp(i int, under ref) (ref, []byte, int) {
	i++
	if w, n := d.short(i); n > 0 {
		s := d.data[i : i+n]
		found, p := d.findShort(w, n, plainText, under)
		return d.admitPlain(found, p, s), s, i + n + 1
	}
	end, plain := d.quoted(i)
	if end < 0 {
		return nothing, nil, end
	}
	s := d.data[i:end]
	if plain {
		found, p := d.find(s, plainText, under)
		return d.admitPlain(found, p, s), s, end + 1
	}
	found, p := d.find(s, otherText, under)
	if found != nothing {
		return found, nil, end + 1
	}
	decoded, ok := d.text(s)
	if !ok {
		return nothing, nil, -1
	}
	if p != nil {
		found = d.set(p, string(s), otherText, string(decoded))
	}
	return found, decoded, end + 1
}

// admitPlain returns what find has found for a plain text, or the entry that it gets if there is a place.
func (t *table) admitPlain(found ref, p *place, text []byte) ref {
	if p == nil {
		return found
	}
	s := string(text)
	return t.set(p, s, plainText, s)
}

// own returns a copy of s. The short strings of an object share one or a few blocks of memory.
func (d *Decoder) own(s []byte) string {
	n := len(s)
	if n > maxBlock/8 {
		return string(s)
	}
	if d.block.Cap()-d.block.Len() < n {
		d.block = strings.Builder{}
		d.block.Grow(min(max(d.expect-d.used, n, 64), maxBlock))
	}
	d.used += n
	begin := d.block.Len()
	d.block.Write(s)
	return d.block.String()[begin:]
}

const (
	each = 0x0101010101010101
	high = 0x8080808080808080
)

// quoted returns the position of the closing quote of the string whose content begins at i, and whether the content is
// plain: ASCII without escapes. The position is negative if there is no closing quote, or a control character before
// it.
func (d *Decoder) quoted(i int) (end int, plain bool) {
	data := d.data
	ascii := true
	for {
		for i+8 <= len(data) {
			x := binary.LittleEndian.Uint64(data[i:])
			if found := notable(x); found != 0 {
				i += bits.TrailingZeros64(found) >> 3
				break
			}
			i += 8
		}
		for i < len(data) && data[i] != '"' && data[i] != '\\' && data[i] >= ' ' && data[i] < utf8.RuneSelf {
			i++
		}
		switch {
		case i >= len(data):
			return d.fail(ErrShort), false
		case data[i] == '"':
			return i, ascii
		case data[i] == '\\':
			ascii = false
			if i += 2; i > len(data) {
				return d.fail(ErrShort), false
			}
		case data[i] < ' ':
			return d.fail(ErrDeclined), false
		default:
			ascii = false
			for i < len(data) && data[i] >= utf8.RuneSelf {
				i++
			}
		}
	}
}

// text returns the text that the content of a string stands for, in memory that the next call may change.
func (d *Decoder) text(s []byte) ([]byte, bool) {
	if utf8.Valid(s) && bytes.IndexByte(s, '\\') < 0 {
		return s, true
	}
	out := d.scratch[:0]
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '\\':
			var ok bool
			if out, i, ok = unescape(out, s, i); !ok {
				d.fail(ErrDeclined)
				return nil, false
			}
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			// A byte that belongs to no rune becomes U+FFFD.
			r, size := utf8.DecodeRune(s[i:])
			out = utf8.AppendRune(out, r)
			i += size
		}
	}
	d.scratch = out
	return out, true
}

// unescape appends the character that the escape at s[i] stands for, and returns where the next one begins.
func unescape(out, s []byte, i int) ([]byte, int, bool) {
	if i+1 >= len(s) {
		return out, i, false
	}
	switch c := s[i+1]; c {
	case '"', '\\', '/':
		return append(out, c), i + 2, true
	case 'b':
		return append(out, '\b'), i + 2, true
	case 'f':
		return append(out, '\f'), i + 2, true
	case 'n':
		return append(out, '\n'), i + 2, true
	case 'r':
		return append(out, '\r'), i + 2, true
	case 't':
		return append(out, '\t'), i + 2, true
	case 'u':
	default:
		return out, i, false
	}
	r, ok := unit(s, i)
	if !ok {
		return out, i, false
	}
	i += 6
	if utf16.IsSurrogate(r) {
		// Half a pair becomes U+FFFD, and what follows is decoded separately.
		low, _ := unit(s, i)
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			i += 6
		}
	}
	return utf8.AppendRune(out, r), i, true
}

// unit returns the UTF-16 code unit of the escape at i, "\u" and four hexadecimal digits, if there is one.
func unit(s []byte, i int) (rune, bool) {
	if i+6 > len(s) || s[i] != '\\' || s[i+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s[i+2 : i+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
