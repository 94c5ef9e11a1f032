package decode

import (
	"encoding/binary"
	"math/bits"
)

// maxInterned is the length of the longest text in a table. (UIDs have 36 bytes, but differ between objects.)
const maxInterned = 64

// table keeps strings and numbers that have been seen more than once, so that what they decode to is not allocated
// again. Objects share that, as it is immutable. The package comment says how it is used.
//
// The keys form a trie: a key that is found in objects under several keys has an entry for each of these.
//
// Each text has one possible place, and a place has one owner. The owner gains credit each time it is found. Another
// text that is seen there twice in a row takes a credit from the owner, and the place once there is none.
type table struct {
	places  []place // by hash
	entries []entry // in the order in which they were seen, which is about the order of the next object
}

type place struct {
	owner   ref
	hash    uint16 // a part of the owner's hash
	refused uint16 // a part of the hash of the last text that did not get the place
}

// ref is the index of an entry.
type ref uint16

const (
	// The first two have entries, too, so that no caller has to ask: what is noted there is only a guess for the next
	// text, as with any entry.
	nothing  ref = iota // no entry, or a key without one
	root                // stands for the key of an object that is not within another one
	firstRef            // of the entries of texts
)

type entry struct {
	words words  // if the text is short
	text  string // as JSON, without the quotes of a string
	boxed any    // what the text decodes to
	kind  textKind

	// If it is a key, what its value was last.
	inner ref   // the first key of the object, or the string or number; for a list that of the last item
	next  ref   // the key that came after the value
	size  uint8 // how many keys the object has; 0 if not known

	credit uint8
}

type textKind uint8

const (
	numberText textKind = iota
	plainText           // a string without escapes, only ASCII
	otherText           // a string that differs from its JSON
)

const maxCredit = 15

func newTable(places int) table {
	return table{make([]place, places), make([]entry, firstRef)}
}

// sizeHint returns how many keys an object under the key probably has. Its JSON has at most n bytes. Until that object
// has been decoded, further hints are 0: an object within it, under the same key, may differ.
func (t *table) sizeHint(under ref, n int) int {
	if under < firstRef {
		return 0
	}
	e := &t.entries[under]
	size := min(int(e.size), n/4) // the shortest member is "":0
	e.size = 0
	return size
}

// begins reports whether data begins with the text, and more than maxWords bytes follow.
func (e *entry) begins(data []byte) bool {
	n := len(e.text)
	if n > maxWords {
		return n+maxWords < len(data) && string(data[:n]) == e.text
	}
	if len(data) <= 2*maxWords {
		return false
	}
	a := binary.LittleEndian.Uint64(data) ^ e.words.a
	if n < 8 {
		return a<<(64-8*n) == 0 && n > 0
	}
	if n <= 16 {
		return a == 0 && (n == 8 || (binary.LittleEndian.Uint64(data[8:])^e.words.b)<<(128-8*n) == 0)
	}
	return a == 0 && binary.LittleEndian.Uint64(data[8:]) == e.words.b &&
		(binary.LittleEndian.Uint64(data[16:])^e.words.c)<<(192-8*n) == 0
}

// decoded returns the string that the text stands for.
func (e *entry) decoded() string {
	if e.kind == otherText {
		return e.boxed.(string)
	}
	return e.text
}

// find returns the entry of a text. If it has none, but is to get one by set, find returns the place. If the text is a
// key, under is the key of its object.
func (t *table) find(text []byte, kind textKind, under ref) (ref, *place) {
	switch {
	case len(text) == 0 || len(text) > maxInterned:
		return nothing, nil
	case len(text) <= maxWords:
		return t.findShort(wordsOf(text), len(text), kind, under)
	}
	p, part := t.place(hash(text), under)
	if e := &t.entries[p.owner]; p.hash == part && e.kind == kind && e.text == string(text) {
		e.credited()
		return p.owner, nil
	}
	return nothing, t.refuse(p, part)
}

// plain returns the entry of a plain text, or the one that it gets if there is a place.
func (t *table) plain(text []byte, under ref) ref {
	found, place := t.find(text, plainText, under)
	return t.admitPlain(found, place, text)
}

// findShort is like find, for a short text.
func (t *table) findShort(w words, n int, kind textKind, under ref) (ref, *place) {
	p, part := t.place(w.hash(n), under)
	if e := &t.entries[p.owner]; p.hash == part && e.words == w && e.kind == kind && len(e.text) == n {
		e.credited()
		return p.owner, nil
	}
	return nothing, t.refuse(p, part)
}

func (t *table) place(h uint64, under ref) (*place, uint16) {
	h ^= uint64(under) * 0x9e3779b97f4a7c15
	return &t.places[(h>>20)&uint64(len(t.places)-1)], uint16(h >> 48)
}

// refuse returns the place if a text that is not its owner gets it, else nil.
func (t *table) refuse(p *place, part uint16) *place {
	if p.refused != part {
		p.refused = part
		return nil
	}
	if e := &t.entries[p.owner]; e.credit > 0 {
		e.credit--
		return nil
	}
	return p
}

// set makes a text that stands for v the owner of the place that find has just returned.
func (t *table) set(p *place, text string, kind textKind, v any) ref {
	e := entry{text: text, boxed: v, kind: kind}
	if len(text) <= maxWords {
		e.words = wordsOf([]byte(text))
	}
	p.hash = p.refused
	if p.owner == nothing {
		p.owner = ref(len(t.entries))
		t.entries = append(t.entries, e)
	} else {
		t.entries[p.owner] = e
	}
	return p.owner
}

func (e *entry) credited() {
	if e.credit < maxCredit {
		e.credit++
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
func (in *input) short(i int) (w words, n int) {
	if i+maxWords >= len(in.data) {
		return w, -1
	}
	text := in.data[i : i+maxWords+1 : i+maxWords+1]
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
	switch n := len(text); {
	case n >= 16:
		w.a, w.b = binary.LittleEndian.Uint64(text), binary.LittleEndian.Uint64(text[8:])
		w.c = binary.LittleEndian.Uint64(text[n-8:]) >> (8 * (maxWords - n))
	case n >= 8:
		w.a = binary.LittleEndian.Uint64(text)
		w.b = binary.LittleEndian.Uint64(text[n-8:]) >> (8 * (16 - n))
	case n >= 4:
		w.a = uint64(binary.LittleEndian.Uint32(text)) |
			uint64(binary.LittleEndian.Uint32(text[n-4:]))<<(8*(n-4))
	default:
		for i, c := range text {
			w.a |= uint64(c) << (8 * i)
		}
	}
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
