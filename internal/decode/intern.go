package decode

import (
	"encoding/binary"
	"math/bits"
)

// longest is how long a string may be to be worth a place in a table. UIDs have
// 36 bytes, and are of one object.
const longest = 64

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
	text   string
	boxed  any
}

const mostCredit = 15

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
	h := hash(text)
	return &t.entries[h&uint64(len(t.entries)-1)], uint32(h >> 32)
}

// has says whether the entry is that of a text.
func (e *entry) has(text []byte) bool {
	if e.boxed == nil || e.text != string(text) {
		return false
	}
	if e.credit < mostCredit {
		e.credit++
	}
	return true
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

// hash need not be good against an enemy: who collides is not interned.
func hash(b []byte) uint64 {
	var x, y uint64
	switch n := len(b); {
	case n >= 8:
		x, y = binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
		if n > 16 {
			y ^= bits.RotateLeft64(binary.LittleEndian.Uint64(b[n/2-4:]), 23)
		}
	case n >= 4:
		x, y = uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[n-4:]))
	default:
		x = uint64(b[0]) | uint64(b[n/2])<<8 | uint64(b[n-1])<<16
	}
	top, low := bits.Mul64(x^0x9e3779b97f4a7c15, y^0xc2b2ae3d27d4eb4f^uint64(len(b))<<56)
	return top ^ low
}
