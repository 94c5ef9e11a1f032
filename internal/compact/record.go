package compact

import (
	"cmp"
	"encoding/binary"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// Record is an object, packed into one block of memory. Each of these is preceded by its length: namespace, name, uid,
// resourceVersion, and the values of all indexes, each with the number of its index. Then follows a byte that says how
// the text is encoded, and the text. The Record of no object is empty.
type Record string

// Entry is a value of an index.
type Entry struct {
	Index int
	Value string
}

func (e Entry) Compare(other Entry) int {
	return cmp.Or(cmp.Compare(e.Index, other.Index), strings.Compare(e.Value, other.Value))
}

// Pack returns a Record. Encoding is that of the payload.
func Pack(id objects.Version, entries []Entry, encoding byte, payload []byte) Record {
	texts := [...]string{id.Namespace, id.Name, string(id.UID), id.ResourceVersion}
	var length [binary.MaxVarintLen64]byte
	size := func(n int) int { return binary.PutUvarint(length[:], uint64(n)) }
	total := size(len(entries)) + 1 + len(payload)
	for _, t := range texts {
		total += size(len(t)) + len(t)
	}
	for _, e := range entries {
		total += size(e.Index) + size(len(e.Value)) + len(e.Value)
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
		number(e.Index)
		number(len(e.Value))
		b.WriteString(e.Value)
	}
	b.WriteByte(encoding)
	b.Write(payload)
	return Record(b.String())
}

// number returns the number that r begins with, and the rest.
func (r Record) number() (int, Record) {
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
func (r Record) text() (string, Record) {
	n, rest := r.number()
	return string(rest[:n]), rest[n:]
}

// Name returns the namespace and the name.
func (r Record) Name() (namespace, name string) {
	namespace, r = r.text()
	name, _ = r.text()
	return namespace, name
}

// Identity returns the identity.
func (r Record) Identity() objects.Version {
	id, _ := r.identity()
	return id
}

// identity returns the identity, and what follows it.
func (r Record) identity() (id objects.Version, rest Record) {
	var uid string
	id.Namespace, r = r.text()
	id.Name, r = r.text()
	uid, r = r.text()
	id.UID = types.UID(uid)
	id.ResourceVersion, r = r.text()
	return id, r
}

// Entries returns the values of the indexes, which share the memory of r.
func (r Record) Entries() []Entry {
	_, r = r.identity()
	n, r := r.number()
	if n == 0 {
		return nil
	}
	entries := make([]Entry, n)
	for i := range entries {
		entries[i].Index, r = r.number()
		entries[i].Value, r = r.text()
	}
	return entries
}

// Payload returns the encoding of the text, and the text in that.
func (r Record) Payload() (encoding byte, payload string) {
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
