package decode

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// stringKey returns the key that begins at i, its entry if it is in the table, and where it ends. under is the key of
// its object.
func (p *parser) stringKey(i int, under ref) (string, ref, int) {
	k, s, i := p.lookUp(i, under)
	if k != nothing {
		return p.table.entries[k].decoded(), k, i
	}
	return p.own.copy(s), nothing, i
}

// stringValue returns the string that begins at i, as an interface value, and where it ends. under is its key.
func (p *parser) stringValue(i int, under ref) (any, int) {
	v, s, i := p.lookUp(i, nothing)
	p.table.entries[under].inner = v
	if v != nothing {
		return p.table.entries[v].boxed, i
	}
	return p.own.copy(s), i
}

// lookUp returns the entry of the string that begins at i, and where the string ends. If it is not in the table, lookUp
// returns the text, in memory that may change. If the string is a key, under is the key of its object.
func (p *parser) lookUp(i int, under ref) (ref, []byte, int) {
	i++
	if w, n := p.in.short(i); n > 0 {
		s := p.in.data[i : i+n]
		found, place := p.table.findShort(w, n, plainText, under)
		return p.table.admitPlain(found, place, s), s, i + n + 1
	}
	end, plain := p.in.quoted(i)
	if end < 0 {
		return nothing, nil, end
	}
	s := p.in.data[i:end]
	if plain {
		return p.table.plain(s, under), s, end + 1
	}
	found, place := p.table.find(s, otherText, under)
	if found != nothing {
		return found, nil, end + 1
	}
	decoded, ok := p.text(s)
	if !ok {
		return nothing, nil, -1
	}
	if place != nil {
		found = p.table.set(place, string(s), otherText, string(decoded))
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

// text returns the text that the content of a string stands for, in memory that the next call may change.
func (p *parser) text(s []byte) ([]byte, bool) {
	if utf8.Valid(s) && bytes.IndexByte(s, '\\') < 0 {
		return s, true
	}
	out := p.scratch[:0]
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '\\':
			var ok bool
			if out, i, ok = unescape(out, s, i); !ok {
				p.in.fail(ErrDeclined)
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
	p.scratch = out
	return out, true
}

// unescaped has the character that a letter after a backslash stands for.
var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape appends the character that the escape at s[i] stands for, and returns where the next one begins.
func unescape(out, s []byte, i int) ([]byte, int, bool) {
	if i+1 >= len(s) {
		return out, i, false
	}
	if c := unescaped[s[i+1]]; c != 0 {
		return append(out, c), i + 2, true
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

// ownStrings holds the strings of an object that are not in the table.
type ownStrings struct {
	block  strings.Builder
	used   int // bytes of the object's strings
	last   int // bytes of the last object's strings
	expect int // for this object: the smaller number of the last two objects, and an eighth more
}

// copy returns a copy of s. The short strings of an object share one or a few blocks of memory.
func (o *ownStrings) copy(s []byte) string {
	n := len(s)
	if n > maxBlock/8 {
		return string(s)
	}
	if o.block.Cap()-o.block.Len() < n {
		o.block = strings.Builder{}
		o.block.Grow(min(max(o.expect-o.used, n, 64), maxBlock))
	}
	o.used += n
	begin := o.block.Len()
	o.block.Write(s)
	return o.block.String()[begin:]
}

// finish ends an object: the next one gets its own block of strings. Only a whole one teaches how many to expect.
func (o *ownStrings) finish(whole bool) {
	o.block = strings.Builder{}
	if whole {
		o.expect = min(o.used, o.last)
		o.expect += o.expect / 8
		o.last = o.used
	}
	o.used = 0
}
