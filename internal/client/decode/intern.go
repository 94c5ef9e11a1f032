package decode

import (
	"encoding/binary"
	"math/bits"
)

// maxInterned is the length of the longest string in a table. (UIDs have 36 bytes, but differ between objects.)
const maxInterned = 64

// table keeps texts that have been seen more than once, so that they are not allocated again: as strings for keys, and
// as interface values. It never grows. Objects share what is in it, which is immutable.
//
// Each text has one possible place, and a place has one owner. The owner gains credit each time it is found. Another
// text that is seen there twice in a row takes a credit from the owner, and the place once there is none. So names and
// times do not replace what all objects have.
type table struct{ entries []entry }

type entry struct {
	hash   uint32 // of the last text that was refused
	credit uint8
	size   uint8 // of the last map under this key
	short  uint8 // the length of a short text
	words  words // a short text
	text   string
	boxed  any
}

const maxCredit = 15

// hint returns how many keys a map under the key of the entry probably has. The JSON of the map has at most n bytes,
// and the entry may be nil. Until that map has been decoded, further hints are 0: a map within it, under the same key,
// may differ.
func (e *entry) hint(n int) int {
	if e == nil {
		return 0
	}
	size := min(int(e.size), n/4) // the shortest member is "":0
	e.size = 0
	return size
}

func newTable(size int) table { return table{make([]entry, size)} }

// find returns the place of a text, which must not be empty, and its hash for wants.
func (t *table) find(text []byte) (*entry, uint32) {
	if len(text) <= maxWords {
		return t.findShort(wordsOf(text), len(text))
	}
	return t.place(hash(text))
}

// findShort is like find, for a short text.
func (t *table) findShort(w words, n int) (*entry, uint32) { return t.place(w.hash(n)) }

func (t *table) place(h uint64) (*entry, uint32) {
	return &t.entries[h&uint64(len(t.entries)-1)], uint32(h >> 32)
}

// has reports whether a text is the owner.
func (e *entry) has(text []byte) bool {
	if e.boxed == nil || e.text != string(text) {
		return false
	}
	e.credited()
	return true
}

// hasShort is like has, for a short text.
func (e *entry) hasShort(w words, n int) bool {
	if e.words != w || int(e.short) != n {
		return false
	}
	e.credited()
	return true
}

func (e *entry) credited() {
	if e.credit < maxCredit {
		e.credit++
	}
}

// wants reports whether a text that is not the owner gets the place.
func (e *entry) wants(hash uint32) bool {
	if e.hash != hash {
		e.hash = hash
		return false
	}
	if e.credit > 0 {
		e.credit--
		return false
	}
	return true
}

// assign makes a text that stands for v the owner.
func (e *entry) assign(text string, v any) {
	*e = entry{text: text, boxed: v}
	if len(text) <= maxWords {
		e.words, e.short = wordsOf([]byte(text)), uint8(len(text))
	}
}

// hash is for texts that are longer than maxWords.
func hash(b []byte) uint64 {
	n := len(b)
	first, last := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	middle := binary.LittleEndian.Uint64(b[n/2-4:])
	return mix(first, last^bits.RotateLeft64(middle, 23), n)
}

// maxWords is the length of the longest text that is compared as words.
const maxWords = 24

// words are the bytes of a short text, the first one lowest, followed by zeros. Together with its length they identify
// the text. Most keys are short, so a few instructions find them.
type words struct{ a, b, c uint64 }

// short returns the words of the string whose content begins at i, and its length, which is negative if the string is
// too long, not plain, or too near the end of the data.
func (d *Decoder) short(i int) (w words, n int) {
	if i+maxWords >= len(d.data) {
		return w, -1
	}
	text := d.data[i : i+maxWords+1 : i+maxWords+1]
	n = maxWords
	if w.a = binary.LittleEndian.Uint64(text); notable(w.a) != 0 {
		n = bits.TrailingZeros64(notable(w.a)) >> 3
		w.a &= 1<<(8*n) - 1
	} else if w.b = binary.LittleEndian.Uint64(text[8:]); notable(w.b) != 0 {
		n = bits.TrailingZeros64(notable(w.b)) >> 3
		w.b &= 1<<(8*n) - 1
		n += 8
	} else if w.c = binary.LittleEndian.Uint64(text[16:]); notable(w.c) != 0 {
		n = bits.TrailingZeros64(notable(w.c)) >> 3
		w.c &= 1<<(8*n) - 1
		n += 16
	}
	if text[n] != '"' {
		return w, -1
	}
	return w, n
}

// notable finds the first byte of x that is a quote, a backslash, a control character or not ASCII: the lowest bit of
// the result that is set is in that byte. Borrows may set bits above it.
func notable(x uint64) uint64 {
	quote := x ^ each*'"'
	escape := x ^ each*'\\'
	return (((quote - each) &^ quote) | ((escape - each) &^ escape) | (x - each*' ') | x) & high
}

// wordsOf returns the words of a text of at most maxWords bytes.
func wordsOf(text []byte) (w words) {
	var all [maxWords]byte
	copy(all[:], text)
	w.a = binary.LittleEndian.Uint64(all[:])
	w.b = binary.LittleEndian.Uint64(all[8:])
	w.c = binary.LittleEndian.Uint64(all[16:])
	return w
}

func (w words) hash(n int) uint64 {
	return mix(w.a^bits.RotateLeft64(w.c, 32), w.b^w.c, n)
}

// mix need not resist attacks: texts that collide are only slower to decode.
func mix(x, y uint64, n int) uint64 {
	top, low := bits.Mul64(x^0x9e3779b97f4a7c15, y^0xc2b2ae3d27d4eb4f^uint64(n)<<56)
	return top ^ low
}
