package stream

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// arena holds texts end to end, each after its length, in chunks. It forgets
// nothing by itself: whoever drops texts asks whether it has become wasteful.
type arena struct {
	chunks [][]byte
	end    int // of the texts in the last chunk that takes more
	open   int // that chunk
	size   int // bytes written
	waste  int // of which these were dropped
}

const (
	chunkSize = 1 << 16
	// A reference is a chunk's number and a place in it, so there can't be more.
	// They hold the names of some 150 million objects.
	maxChunks = 1 << 16
)

// put keeps a text and returns where it lies; the empty one lies at 0.
func (a *arena) put(s string) uint32 {
	if s == "" {
		return 0
	}
	if len(a.chunks) == 0 {
		a.chunks = [][]byte{make([]byte, chunkSize)}
		a.end = 1 // nothing lies at 0
	}
	n := textSize(len(s))
	a.size += n
	chunk, at := a.open, a.end
	switch {
	case n > chunkSize:
		chunk, at = len(a.chunks), 0
		a.chunks = append(a.chunks, make([]byte, n))
	case a.end+n > chunkSize:
		a.open, a.end = len(a.chunks), n
		chunk, at = a.open, 0
		a.chunks = append(a.chunks, make([]byte, chunkSize))
	default:
		a.end += n
	}
	b := a.chunks[chunk][at:]
	copy(b[binary.PutUvarint(b, uint64(len(s))):], s)
	return uint32(chunk<<16 | at)
}

func (a *arena) bytes(ref uint32) []byte {
	if ref == 0 {
		return nil
	}
	b := a.chunks[ref>>16][ref&0xffff:]
	n, l := binary.Uvarint(b)
	return b[l : l+int(n)]
}

func (a *arena) get(ref uint32) string { return string(a.bytes(ref)) }

func (a *arena) equal(ref uint32, s string) bool { return string(a.bytes(ref)) == s }

// drop says that a text is no longer needed.
func (a *arena) drop(ref uint32) {
	if ref != 0 {
		a.waste += textSize(len(a.bytes(ref)))
	}
}

func (a *arena) wasteful() bool { return a.waste > a.size/2+chunkSize }

// full says that there is hardly room for more.
func (a *arena) full() bool { return len(a.chunks) > maxChunks-maxChunks/16 }

func textSize(n int) int {
	size := n + 1
	for ; n >= 0x80; n >>= 7 {
		size++
	}
	return size
}

// intern numbers texts that many share.
type intern struct {
	numbers map[string]uint32
	texts   []string
	uses    []int
	free    []uint32
}

func (in *intern) put(s string) uint32 {
	n, ok := in.numbers[s]
	switch {
	case ok:
	case len(in.free) > 0:
		n = in.free[len(in.free)-1]
		in.free = in.free[:len(in.free)-1]
	default:
		n = uint32(len(in.texts))
		in.texts, in.uses = append(in.texts, ""), append(in.uses, 0)
	}
	if !ok {
		if in.numbers == nil {
			in.numbers = map[string]uint32{}
		}
		// A copy, or it might keep the whole answer of the server alive.
		s = string([]byte(s))
		in.numbers[s], in.texts[n] = n, s
	}
	in.uses[n]++
	return n
}

func (in *intern) drop(n uint32) {
	if in.uses[n]--; in.uses[n] == 0 {
		delete(in.numbers, in.texts[n])
		in.texts[n] = ""
		in.free = append(in.free, n)
	}
}

func (in *intern) name(n uint32) string { return in.texts[n] }

// packUUID packs a uid as Kubernetes writes them. Others stay texts, so that all
// come back as they were.
func packUUID(s string) (u [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, false
	}
	var digits [32]byte
	n := copy(digits[:], s[:8])
	n += copy(digits[n:], s[9:13])
	n += copy(digits[n:], s[14:18])
	n += copy(digits[n:], s[19:23])
	copy(digits[n:], s[24:])
	for _, c := range digits {
		if c >= 'A' && c <= 'F' {
			return u, false
		}
	}
	_, err := hex.Decode(u[:], digits[:])
	return u, err == nil
}

func unpackUUID(u [16]byte) string {
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:], u[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// packNumber packs a version that is a number, written as numbers are.
func packNumber(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && unpackNumber(n) == s
}

func unpackNumber(n uint64) string { return strconv.FormatUint(n, 10) }

// packRef puts a reference where a UUID would be.
func packRef(ref uint32) (u [16]byte) {
	binary.LittleEndian.PutUint32(u[:], ref)
	return u
}

func unpackRef(u [16]byte) uint32 { return binary.LittleEndian.Uint32(u[:]) }
