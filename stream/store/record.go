package store

import (
	"cmp"
	"encoding/binary"
	"strings"

	"github.com/gvrwatch/gvrwatch/internal/objects"
	"k8s.io/apimachinery/pkg/types"
)

// record is an object, packed into one block of memory. Each of these is preceded by its length: namespace, name, uid,
// resourceVersion, and the values of all indexes, each with the number of its index. Then follows a byte that says how
// the JSON is encoded, and the JSON. The record of no object is empty.
type record string

// entry is a value of an index.
type entry struct {
	index int
	value string
}

func (e entry) compare(other entry) int {
	return cmp.Or(cmp.Compare(e.index, other.index), strings.Compare(e.value, other.value))
}

// pack returns a record. Encoding is that of the payload.
func pack(id objects.Version, entries []entry, encoding byte, payload []byte) record {
	texts := [...]string{id.Namespace, id.Name, string(id.UID), id.ResourceVersion}
	var length [binary.MaxVarintLen64]byte
	size := func(n int) int { return binary.PutUvarint(length[:], uint64(n)) }
	total := size(len(entries)) + 1 + len(payload)
	for _, t := range texts {
		total += size(len(t)) + len(t)
	}
	for _, e := range entries {
		total += size(e.index) + size(len(e.value)) + len(e.value)
	}
	var b strings.Builder
	b.Grow(total)
	number := func(n int) { b.Write(length[:size(n)]) }
	for _, t := range texts {
		number(len(t))
		b.WriteString(t)
	}
	number(len(entries))
	for _, e := range entries {
		number(e.index)
		number(len(e.value))
		b.WriteString(e.value)
	}
	b.WriteByte(encoding)
	b.Write(payload)
	return record(b.String())
}

// number returns the number that r begins with, and the rest.
func (r record) number() (int, record) {
	n := 0
	for i := range len(r) {
		n |= int(r[i]&0x7f) << (7 * i)
		if r[i] < 0x80 {
			return n, r[i+1:]
		}
	}
	return 0, ""
}

// text returns the text that r begins with, after its length, and the rest.
func (r record) text() (string, record) {
	n, rest := r.number()
	return string(rest[:n]), rest[n:]
}

// name returns the namespace and the name.
func (r record) name() (namespace, name string) {
	namespace, r = r.text()
	name, _ = r.text()
	return namespace, name
}

// identity returns the identity, and what follows it.
func (r record) identity() (id objects.Version, rest record) {
	var uid string
	id.Namespace, r = r.text()
	id.Name, r = r.text()
	uid, r = r.text()
	id.UID = types.UID(uid)
	id.ResourceVersion, r = r.text()
	return id, r
}

// entries returns the values of the indexes, which share the memory of r, and what follows them.
func (r record) entries() (entries []entry, rest record) {
	_, r = r.identity()
	n, r := r.number()
	if n > 0 {
		entries = make([]entry, n)
	}
	for i := range entries {
		entries[i].index, r = r.number()
		entries[i].value, r = r.text()
	}
	return entries, r
}

// payload returns the encoding of the JSON, and the JSON in that.
func (r record) payload() (encoding byte, payload string) {
	_, r = r.identity()
	n, r := r.number()
	for range n {
		_, r = r.number()
		_, r = r.text()
	}
	if r == "" {
		return plain, ""
	}
	return r[0], string(r[1:])
}
