package decode

import (
	"encoding/binary"
	"math/bits"
)

// longest is how long a string may be to be worth a place in a table. UIDs have
// 36 bytes, and are of one object.
const maxInterned = 64

// table keeps what has been seen more than once, so that it need not be made
// anew: strings as keys, and boxed as values. It never grows. What is in it is
// shared by many objects, and immutable.
//
// A place has one owner. Whoever else comes there twice in a row wears the owner
// down, who recovers each time it is asked for: names and times that come and go
// do not drive out what all objects have.
type table struct{ entries []entry }

type entry struct {
	hash   uint32 // of whoever was refused last
	credit uint8
	size   uint8 // of the object that was under this key last
	short  uint8 // the length of a short text
	words  words // of it
	text   string
	boxed  any
}

const maxCredit = 15

// hint says how many keys an object probably has that is under the key of the
// entry, which may be nil, if its text has at most so many bytes. It says so once: an
// object within that one under the same key need not be like it.
func (e *entry) hint(bytes int) int {
	if e == nil {
		return 0
	}
	n := min(int(e.size), bytes/4) // "":0, is the shortest
	e.size = 0
	return n
}

func newTable(size int) table { return table{make([]entry, size)} }

// find returns the place of a text, which is not empty, and what wants needs.
func (t *table) find(text []byte) (*entry, uint32) {
	if len(text) <= maxWords {
		return t.at(wordsOf(text), len(text))
	}
	return t.place(hash(text))
}

// at is find for a short text.
func (t *table) at(w words, n int) (*entry, uint32) { return t.place(w.hash(n)) }

func (t *table) place(h uint64) (*entry, uint32) {
	return &t.entries[h&uint64(len(t.entries)-1)], uint32(h >> 32)
}

// has says whether the entry is that of a text.
func (e *entry) has(text []byte) bool {
	if e.boxed == nil || e.text != string(text) {
		return false
	}
	e.credited()
	return true
}

// is is has for a short text.
func (e *entry) is(w words, n int) bool {
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

// wants says whether the place is to be given to a text that it does not have.
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

// give gives the place to a text that stands for v.
func (e *entry) assign(text string, v any) {
	*e = entry{text: text, boxed: v}
	if len(text) <= maxWords {
		e.words, e.short = wordsOf([]byte(text)), uint8(len(text))
	}
}

// hash is for texts that have more than mostWords.
func hash(b []byte) uint64 {
	n := len(b)
	first, last := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	middle := binary.LittleEndian.Uint64(b[n/2-4:])
	return mix(first, last^bits.RotateLeft64(middle, 23), n)
}

// mostWords is how long a text may be to be compared as words.
const maxWords = 24

// words are the bytes of a short text, the first one lowest, and zeros behind them:
// with how many there are they are all that it is. Most keys are short, and found
// with a few instructions.
type words struct{ a, b, c uint64 }

// short returns the words of the string whose content begins at i, and its length.
// That is negative if it is too long, or not plain, or if the data may end before
// it does.
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

// notable returns a word whose lowest bit that is set is in the first byte of x that
// is a quote, a backslash, a control character or no ASCII. Bits above it may be set
// by a borrow.
func notable(x uint64) uint64 {
	quote := x ^ each*'"'
	escape := x ^ each*'\\'
	return (((quote - each) &^ quote) | ((escape - each) &^ escape) | (x - each*' ') | x) & high
}

// wordsOf returns the words of a text that is short enough.
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

// mix need not be good against an enemy: who collides is not interned.
func mix(x, y uint64, n int) uint64 {
	top, low := bits.Mul64(x^0x9e3779b97f4a7c15, y^0xc2b2ae3d27d4eb4f^uint64(n)<<56)
	return top ^ low
}
