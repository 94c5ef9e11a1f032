package decode

import (
	"encoding/binary"
	"math/bits"
)

// mostWords is how long a text may be to be compared as words.
const mostWords = 24

// words are the bytes of a short text, the first one lowest, and zeros behind them:
// with how many there are they are all that it is. Most keys are short, and found
// with a few instructions.
type words struct{ a, b, c uint64 }

// short returns the words of the string whose content begins at i, and its length.
// That is negative if it is too long, or not plain, or if the data may end before
// it does.
func (d *Decoder) short(i int) (w words, n int) {
	if i+mostWords >= len(d.data) {
		return w, -1
	}
	text := d.data[i : i+mostWords+1 : i+mostWords+1]
	n = mostWords
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
	var all [mostWords]byte
	copy(all[:], text)
	w.a, w.b, w.c = binary.LittleEndian.Uint64(all[:]), binary.LittleEndian.Uint64(all[8:]), binary.LittleEndian.Uint64(all[16:])
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
