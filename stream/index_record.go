package stream

import (
	"encoding/hex"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// record is a packed entry.
type record struct {
	uid     [16]byte // all zero for none
	version uint64
	name    uint32 // where it is
	space   uint32 // the number of the namespace, and flags
}

const (
	flagSeen   = 1 << 31
	flagHidden = 1 << 30
	spaceMask  = 1<<30 - 1
	freed      = 1<<32 - 1 // the space of a record that is not in use

	maxName = 255 // what a byte can count; the names of Kubernetes have 253 at most
)

// pack returns the record of what can be packed and comes out again as it was:
// uids that are none or written as UUIDs are, other than the one that is all
// zeros, and versions that are plain decimal numbers.
func pack(k known, seen bool) (r record, ok bool) {
	if r.version, ok = packVersion(k.version); !ok {
		return r, false
	}
	if r.uid, ok = packUID(k.uid); !ok {
		return r, false
	}
	if k.hidden {
		r.space |= flagHidden
	}
	if seen {
		r.space |= flagSeen
	}
	return r, true
}

func packUID[T types.UID | []byte](uid T) (b [16]byte, ok bool) {
	if len(uid) == 0 {
		return b, true
	}
	if len(uid) != 36 {
		return b, false
	}
	if uid[8] != '-' || uid[13] != '-' || uid[18] != '-' || uid[23] != '-' {
		return b, false
	}
	var all byte
	for i, at := range [...]uint8{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34} {
		high, low := digits[uid[at]], digits[uid[at+1]]
		all |= high | low
		b[i] = high<<4 | low
	}
	return b, all <= 0xf && b != [16]byte{}
}

// digits has the values of hexadecimal digits as UIDs have them, and 0xff for
// everything else. To look them up is faster than to ask: there is no guessing
// which of the two kinds comes next.
var digits = func() (values [256]byte) {
	for c := range values {
		values[c] = 0xff
	}
	for v, c := range []byte("0123456789abcdef") {
		values[c] = byte(v)
	}
	return values
}()

func (r *record) unpackUID() types.UID {
	if r.uid == [16]byte{} {
		return ""
	}
	var text [36]byte
	hex.Encode(text[:8], r.uid[:4])
	hex.Encode(text[9:13], r.uid[4:6])
	hex.Encode(text[14:18], r.uid[6:8])
	hex.Encode(text[19:23], r.uid[8:10])
	hex.Encode(text[24:], r.uid[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return types.UID(text[:])
}

func packVersion(version string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(version, 10, 64)
	return n, err == nil && (version[0] != '0' || version == "0")
}

func (r *record) unpackVersion() string { return strconv.FormatUint(r.version, 10) }

// chunks is a growing list that does not move what it holds when it is large. It
// is in chunks of 1<<bits, the first of which grows as it is filled.
type chunks[T any] struct {
	bits   uint32
	chunks [][]T
	len    uint32 // of all, if append was given one at a time
}

func (c *chunks[T]) count() uint32 { return uint32(len(c.chunks)) }

// at returns the item at a place that append returned.
func (c *chunks[T]) at(i uint32) *T { return &c.chunks[i>>c.bits][i&(1<<c.bits-1)] }

// from returns what is at such a place, and what follows in its chunk.
func (c *chunks[T]) from(i uint32) []T { return c.chunks[i>>c.bits][i&(1<<c.bits-1):] }

// fits says whether n more have room in the last chunk.
func (c *chunks[T]) fits(n int) bool {
	last := len(c.chunks) - 1
	return last >= 0 && len(c.chunks[last])+n <= 1<<c.bits
}

// append adds items, which are not parted, and returns where.
func (c *chunks[T]) append(items ...T) uint32 {
	if !c.fits(len(items)) {
		var chunk []T
		if len(c.chunks) > 0 {
			chunk = make([]T, 0, 1<<c.bits)
		}
		c.chunks = append(c.chunks, chunk)
	}
	last := len(c.chunks) - 1
	place := uint32(last)<<c.bits | uint32(len(c.chunks[last]))
	c.chunks[last] = append(c.chunks[last], items...)
	c.len++
	return place
}
