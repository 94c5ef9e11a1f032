package decode

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// input is what is being decoded. Its methods know JSON, and nothing of the objects before.
type input struct {
	data   []byte
	err    error // the first one, or ErrTooLarge
	depth  int
	memory int64 // that maps and lists have taken
}

func (in *input) begin(data []byte) { *in = input{data: data} }

// take counts memory. It returns i, the position in the data, or a negative one if it was too much.
func (in *input) take(memory int64, i int) int {
	if in.memory += memory; in.memory > MaxMemory {
		return in.fail(ErrDeclined)
	}
	return i
}

// fail keeps the first error, and returns -1, the position that stands for an error.
func (in *input) fail(err error) int {
	if in.err == nil {
		in.err = err
	}
	return -1
}

// unexpected fails because of what is at i: nothing more, or something unusual.
func (in *input) unexpected(i int) int {
	if i >= len(in.data) {
		return in.fail(ErrShort)
	}
	return in.fail(ErrDeclined)
}

// space returns where the white space at i ends, or i if there is none.
func (in *input) space(i int) int {
	for i < len(in.data) && in.data[i] <= ' ' {
		switch in.data[i] {
		case ' ', '\n', '\r', '\t':
			i++
		default:
			return i
		}
	}
	return i
}

// open returns where the content of a list or an object begins.
func (in *input) open(i int, bracket byte) int {
	if i >= len(in.data) || in.data[i] != bracket || in.depth == maxDepth {
		return in.unexpected(i)
	}
	in.depth++
	return in.space(i + 1)
}

// more returns true and where the next item or member begins, or false and where the list or object ends.
func (in *input) more(i int, bracket byte) (int, bool) {
	if i = in.space(i); i >= len(in.data) {
		return in.fail(ErrShort), false
	}
	switch in.data[i] {
	case ',':
		return in.space(i + 1), true
	case bracket:
		return i + 1, false
	}
	return in.fail(ErrDeclined), false
}

// colon returns where the value of the key that ends at i begins.
func (in *input) colon(i int) int {
	if i = in.space(i); i >= len(in.data) || in.data[i] != ':' {
		return in.unexpected(i)
	}
	return in.space(i + 1)
}

func (in *input) literal(i int, word string) int {
	end := min(i+len(word), len(in.data))
	switch {
	case string(in.data[i:end]) != word[:end-i]:
		return in.fail(ErrDeclined)
	case end-i < len(word):
		return in.fail(ErrShort)
	}
	return end
}

// rawText returns a string without escapes, and only of ASCII.
func (in *input) rawText(i int) ([]byte, int) {
	if i >= len(in.data) || in.data[i] != '"' {
		return nil, -1
	}
	end, plain := in.quoted(i + 1)
	if !plain {
		return nil, -1
	}
	return in.data[i+1 : end], end + 1
}

const (
	each = 0x0101010101010101
	high = 0x8080808080808080
)

// quoted returns the position of the closing quote of the string whose content begins at i, and whether the content is
// plain: ASCII without escapes. The position is negative if there is no closing quote, or a control character before
// it.
func (in *input) quoted(i int) (end int, plain bool) {
	data := in.data
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
			return in.fail(ErrShort), false
		case data[i] == '"':
			return i, ascii
		case data[i] == '\\':
			ascii = false
			if i += 2; i > len(data) {
				return in.fail(ErrShort), false
			}
		case data[i] < ' ':
			return in.fail(ErrDeclined), false
		default:
			ascii = false
			for i < len(data) && data[i] >= utf8.RuneSelf {
				i++
			}
		}
	}
}

// skip returns where the value that begins at i ends. It does not check the value.
func (in *input) skip(i int) int {
	data := in.data
	for depth := 0; i < len(data); i++ {
		switch classOf[data[i]] {
		case quote:
			if i = textEnd(data, i+1); depth == 0 && i < len(data) {
				return i + 1
			}
		case opens:
			depth++
		case closes:
			if depth--; depth < 0 {
				return i
			} else if depth == 0 {
				return i + 1
			}
		case separates:
			if depth == 0 {
				return i
			}
		}
	}
	return in.fail(ErrShort)
}

// classOf says what a byte means to skip, outside of a string.
var classOf = func() (classes [256]class) {
	classes['"'], classes['{'], classes['['], classes['}'], classes[']'] = quote, opens, opens, closes, closes
	for _, c := range ", \n\r\t" {
		classes[c] = separates
	}
	return classes
}()

type class uint8

const (
	_ class = iota
	quote
	opens
	closes
	separates
)

// textEnd returns the position of the closing quote of the string whose content begins at i, or at least len(data) if
// there is none. Most strings are short, so it compares words, and calls nothing.
func textEnd(data []byte, i int) int {
	for i+8 <= len(data) {
		x := binary.LittleEndian.Uint64(data[i:])
		end, escape := x^each*'"', x^each*'\\'
		found := ((end-each)&^end | (escape-each)&^escape) & high
		if found == 0 {
			i += 8
			continue
		}
		if i += bits.TrailingZeros64(found) >> 3; data[i] == '"' {
			return i
		}
		i += 2
	}
	for ; i < len(data) && data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i
}
