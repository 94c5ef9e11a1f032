package index

import (
	"bytes"
	"encoding/hex"
	"hash/maphash"
	"iter"
	"math/bits"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// packed is a hash table with linear probing, from names to records.
type packed struct {
	seed    maphash.Seed
	slots   []uint32 // 0 if empty; at least a quarter of them are
	records chunks[record]
	free    uint32 // the first freed record: its number plus one, or 0; the name of a freed record is the next one
	live    int    // records in use
	deleted int    // records deleted since everything was packed; their names still take room

	names      chunks[byte] // each name comes after a byte with its length
	namespaces []string
	numbers    map[string]uint32 // the index of each namespace in namespaces

	limits limits
}

// limits bound a packed table: widest is what the numbers in records and slots can count. Tests use narrower ones.
type limits struct {
	records, chunks uint32 // chunks of names
	waste           int    // deleted records that are not worth packing everything again
}

var widest = limits{records: 1<<(32-tagBits) - 1, chunks: 1 << (32 - nameBits), waste: 64}

// A slot has the number of a record plus one, and in its lowest bits a tag: some bits of the name's hash, so that a
// search reads hardly any record but the right one.
const (
	tagBits = 6
	tagMask = 1<<tagBits - 1
)

// Chunks have 32 KiB, which is a size class of the allocator.
const (
	recordBits = 10
	nameBits   = 15
)

func newPacked(l limits) packed {
	return packed{
		seed:    maphash.MakeSeed(),
		records: chunks[record]{bits: recordBits},
		names:   chunks[byte]{bits: nameBits},
		numbers: map[string]uint32{},
		limits:  l,
	}
}

// at returns the record of a slot.
func (p *packed) at(slot int) *record { return p.records.at(p.slots[slot]>>tagBits - 1) }

func (p *packed) name(r *record) types.NamespacedName {
	return named(p.namespaces[r.space&spaceMask], string(p.nameBytes(r)))
}

func (p *packed) nameBytes(r *record) []byte {
	text := p.names.from(r.name)
	return text[1 : 1+int(text[0])]
}

// hashed returns the hash of a name in a namespace. One name may exist in many namespaces, whose numbers are small: the
// multiplication spreads them over all bits of the hash.
func hashed(name uint64, space uint32) uint64 { return name ^ uint64(space)*0x9e3779b97f4a7c15 }

// home returns the slot where the search for a hash begins.
func (p *packed) home(hash uint64) int {
	slot, _ := bits.Mul64(hash, uint64(len(p.slots)))
	return int(slot)
}

func (p *packed) next(slot int) int {
	if slot++; slot < len(p.slots) {
		return slot
	}
	return 0
}

func tag(hash uint64) uint32 { return uint32(hash) & tagMask }

// find returns the slot of an object. If either has no uid, the name decides.
func (p *packed) find(name types.NamespacedName, uid types.UID) (slot int, ok bool) {
	space, ok := p.numbers[name.Namespace]
	if !ok || len(p.slots) == 0 {
		return 0, false
	}
	packed, usual := packUID(uid)
	none := [16]byte{}
	hash := hashed(maphash.String(p.seed, name.Name), space)
	return p.search(hash, space, func(r *record) bool {
		same := usual && r.uid == packed || uid == "" || r.uid == none
		return same && string(p.nameBytes(r)) == name.Name
	})
}

// eachNamed calls f with each record of a name.
func (p *packed) eachNamed(name types.NamespacedName, f func(*record)) {
	space, ok := p.numbers[name.Namespace]
	if !ok || len(p.slots) == 0 {
		return
	}
	p.search(hashed(maphash.String(p.seed, name.Name), space), space, func(r *record) bool {
		if string(p.nameBytes(r)) == name.Name {
			f(r)
		}
		return false
	})
}

// hasName reports whether there is a record of a name. It does not allocate a string for the name.
func (p *packed) hasName(namespace, name []byte) bool {
	space, ok := p.numbers[string(namespace)]
	if !ok || len(p.slots) == 0 {
		return false
	}
	_, ok = p.search(hashed(maphash.Bytes(p.seed, name), space), space, func(r *record) bool {
		return bytes.Equal(p.nameBytes(r), name)
	})
	return ok
}

func (p *packed) search(hash uint64, space uint32, is func(*record) bool) (slot int, ok bool) {
	for slot = p.home(hash); p.slots[slot] != 0; slot = p.next(slot) {
		if p.slots[slot]&tagMask != tag(hash) {
			continue
		}
		if r := p.at(slot); r.space&spaceMask == space && is(r) {
			return slot, true
		}
	}
	return 0, false
}

// insert enters a record for an object that has none. It returns false if there is no room for it.
func (p *packed) insert(name types.NamespacedName, r record) bool {
	if len(name.Name) > maxName || p.free == 0 && p.records.len >= p.limits.records {
		return false
	}
	text := append(append(make([]byte, 0, 1+maxName), byte(len(name.Name))), name.Name...)
	if !p.names.fits(len(text)) && p.names.count() >= p.limits.chunks {
		return false
	}
	r.name = p.names.append(text...)
	r.space = r.space&^spaceMask | p.number(name.Namespace)
	n := p.free
	if n != 0 {
		p.free = p.records.at(n - 1).name
		*p.records.at(n - 1) = r
	} else {
		n = p.records.append(r) + 1
	}
	p.live++
	if p.live*4 > len(p.slots)*3 {
		p.reserve(p.live + p.live/4)
	} else {
		p.fill(n)
	}
	return true
}

// number returns the number of a namespace. There are no more namespaces than names, and no more names than
// limits.records, plus half as many of deleted records. spaceMask has room for that.
func (p *packed) number(namespace string) uint32 {
	n, ok := p.numbers[namespace]
	if !ok {
		n = uint32(len(p.namespaces))
		p.namespaces = append(p.namespaces, namespace)
		p.numbers[namespace] = n
	}
	return n
}

// fill takes a slot for a record, whose number plus one is n.
func (p *packed) fill(n uint32) {
	hash := p.hash(p.records.at(n - 1))
	slot := p.home(hash)
	for p.slots[slot] != 0 {
		slot = p.next(slot)
	}
	p.slots[slot] = n<<tagBits | tag(hash)
}

func (p *packed) hash(r *record) uint64 {
	return hashed(maphash.Bytes(p.seed, p.nameBytes(r)), r.space&spaceMask)
}

// reserve makes slots for a number of records.
func (p *packed) reserve(records int) {
	p.slots = make([]uint32, records*4/3+8)
	for i := range p.records.len {
		if p.records.at(i).space != freed {
			p.fill(i + 1)
		}
	}
}

// replace updates the record of an object.
func (p *packed) replace(slot int, r record) {
	old := p.at(slot)
	r.name, r.space = old.name, r.space&^spaceMask|old.space&spaceMask
	*old = r
}

func (p *packed) delete(slot int) {
	n := p.slots[slot] >> tagBits
	*p.records.at(n - 1) = record{name: p.free, space: freed}
	p.free = n
	p.live--
	p.deleted++
	p.closeUp(slot)
}

// closeUp fills the hole at a slot with a later entry, if a search still finds that entry there: if its home is not
// between the hole and its own slot. Then it fills the new hole in the same way.
func (p *packed) closeUp(hole int) {
	for slot := p.next(hole); p.slots[slot] != 0; slot = p.next(slot) {
		home := p.home(p.hash(p.at(slot)))
		between := hole < home && home <= slot
		if slot < hole { // the search has wrapped around
			between = hole < home || home <= slot
		}
		if !between {
			p.slots[hole] = p.slots[slot]
			hole = slot
		}
	}
	p.slots[hole] = 0
}

// wasteful reports whether everything should be packed again.
func (p *packed) wasteful() bool { return p.deleted > p.live/2+p.limits.waste }

// all yields the records in use.
func (p *packed) all() iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for i := range p.records.len {
			if r := p.records.at(i); r.space != freed && !yield(r) {
				return
			}
		}
	}
}

// record is a packed entry.
type record struct {
	uid     [16]byte // all zeros if there is none
	version uint64
	name    uint32 // the place in names
	space   uint32 // the number of the namespace, and flags
}

const (
	flagSeen  = 1 << 31
	flagStale = 1 << 30
	spaceMask = 1<<30 - 1
	freed     = 1<<32 - 1 // the space of a record that is not in use

	maxName = 255 // fits into a byte; names in Kubernetes have at most 253 bytes
)

// pack returns the record of an entry, and false if unpacking it would not return the same entry. The uid must be empty
// or a UUID in its usual form, other than the one of zeros only. The version must be a plain decimal number.
func pack(e Entry, seen bool) (r record, ok bool) {
	if r.version, ok = ParseVersion(e.Version); !ok {
		return r, false
	}
	if r.uid, ok = packUID(e.UID); !ok {
		return r, false
	}
	if seen {
		r.space |= flagSeen
	}
	return r, true
}

func packUID(uid types.UID) (b [16]byte, ok bool) {
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

// digits has the values of hexadecimal digits in lower case, and 0xff for every other byte. A lookup is faster than
// comparisons, whose branches can't be predicted: a letter is as likely as a number.
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

// ParseVersion parses a version that is a decimal number without leading zeros.
func ParseVersion(version string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(version, 10, 64)
	return n, err == nil && (version[0] != '0' || version == "0")
}

func (r *record) unpackVersion() string { return strconv.FormatUint(r.version, 10) }

// chunks is a list that grows without moving its items, in chunks of 1<<bits items. Only the first chunk moves, while
// it grows to that size.
type chunks[T any] struct {
	bits   uint32
	chunks [][]T
	len    uint32 // calls of append
}

func (c *chunks[T]) count() uint32 { return uint32(len(c.chunks)) }

// at returns the item at a place that append has returned.
func (c *chunks[T]) at(i uint32) *T { return &c.chunks[i>>c.bits][i&(1<<c.bits-1)] }

// from returns the items from such a place to the end of its chunk.
func (c *chunks[T]) from(i uint32) []T { return c.chunks[i>>c.bits][i&(1<<c.bits-1):] }

// fits reports whether the last chunk has room for n more items.
func (c *chunks[T]) fits(n int) bool {
	last := len(c.chunks) - 1
	return last >= 0 && len(c.chunks[last])+n <= 1<<c.bits
}

// append adds items to one chunk, and returns the place of the first.
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
