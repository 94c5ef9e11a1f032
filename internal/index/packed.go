package index

import (
	"encoding/hex"
	"iter"
	"math/bits"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// packed is a hash table with linear probing, from names to records.
type packed struct {
	spaces  *spaces
	slots   []uint32 // 0 if empty; at least a quarter of them are
	records chunks[record]
	free    uint32       // the first freed record: its number plus one, or 0; the name of a freed one is the next
	live    int          // records in use
	deleted int          // records deleted since everything was packed; their names still take room
	text    chunks[byte] // the name of each record, after a byte with its length
}

// A slot has the number of a record plus one, and in its lowest bits a tag: some bits of the name's hash, so that a
// search reads hardly any record but the right one.
const (
	tagBits = 9
	tagMask = 1<<tagBits - 1
	// maxRecords is what slots can count. Then 32 bits can count the bytes of all names, even if a third is deleted.
	maxRecords = 1<<(32-tagBits) - 1
)

// Chunks have 4 KiB, which is a size class of the allocator.
const (
	recordBits = 7
	textBits   = 12
)

func newPacked(s *spaces) packed {
	return packed{spaces: s, records: chunks[record]{bits: recordBits}, text: chunks[byte]{bits: textBits}}
}

// at returns the record of a slot.
func (p *packed) at(slot int) *record { return p.records.at(p.slots[slot]>>tagBits - 1) }

func (p *packed) name(r *record) types.NamespacedName {
	return named(p.namespace(r), string(p.nameBytes(r)))
}

func (p *packed) namespace(r *record) string { return p.spaces.list.at(r.space & spaceMask).name }

func (p *packed) nameBytes(r *record) []byte { return p.textOf(r)[1:] }

// textOf returns the name of a record after its length.
func (p *packed) textOf(r *record) []byte {
	text := p.text.from(r.name)
	return text[:1+int(text[0])]
}

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
func (p *packed) find(name key, uid types.UID) (slot int, ok bool) {
	packed, usual := packUID(uid)
	none := [16]byte{}
	return p.search(name.hash, func(r *record) bool {
		same := usual && r.uid == packed || uid == "" || r.uid == none
		return same && p.is(r, name)
	})
}

func (p *packed) is(r *record, name key) bool {
	return string(p.nameBytes(r)) == name.Name && p.namespace(r) == name.Namespace
}

// eachNamed calls f with each record of a name.
func (p *packed) eachNamed(name key, f func(*record)) {
	p.search(name.hash, func(r *record) bool {
		if p.is(r, name) {
			f(r)
		}
		return false
	})
}

// hasName reports whether there is a record of a name. It does not allocate a string for the name.
func (p *packed) hasName(hash uint64, namespace, name []byte) bool {
	_, ok := p.search(hash, func(r *record) bool {
		return string(p.nameBytes(r)) == string(name) && p.namespace(r) == string(namespace)
	})
	return ok
}

func (p *packed) search(hash uint64, is func(*record) bool) (slot int, ok bool) {
	if len(p.slots) == 0 {
		return 0, false
	}
	for slot = p.home(hash); p.slots[slot] != 0; slot = p.next(slot) {
		if p.slots[slot]&tagMask == tag(hash) && is(p.at(slot)) {
			return slot, true
		}
	}
	return 0, false
}

// insert enters a record for an object that has none. It returns false if there is no room for it.
func (p *packed) insert(name key, r record) bool {
	if len(name.Name) > maxName || p.free == 0 && p.records.len >= maxRecords {
		return false
	}
	r.space = r.space&^spaceMask | p.spaces.take(name.Namespace)
	p.add(name.hash, r, append(append(make([]byte, 0, 1+maxName), byte(len(name.Name))), name.Name...))
	return true
}

// add enters a record and its text, which has a name after its length.
func (p *packed) add(hash uint64, r record, text []byte) {
	r.name = p.text.append(text...)
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
		p.fill(n, hash)
	}
}

// fill takes a slot for a record, whose number plus one is n.
func (p *packed) fill(n uint32, hash uint64) {
	slot := p.home(hash)
	for p.slots[slot] != 0 {
		slot = p.next(slot)
	}
	p.slots[slot] = n<<tagBits | tag(hash)
}

func (p *packed) hash(r *record) uint64 { return p.spaces.hashIn(r.space&spaceMask, p.nameBytes(r)) }

// reserve makes slots for a number of records.
func (p *packed) reserve(records int) {
	p.slots = make([]uint32, records*4/3+8)
	for i := range p.records.len {
		if r := p.records.at(i); r.space != freed {
			p.fill(i+1, p.hash(r))
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
	r := p.records.at(n - 1)
	p.closeUp(slot)
	p.spaces.release(r.space & spaceMask)
	*r = record{name: p.free, space: freed}
	p.free = n
	p.live--
	p.deleted++
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
	name    uint32 // the place in text
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
func pack(e objects.Version, seen bool) (r record, ok bool) {
	if r.version, ok = ParseVersion(e.ResourceVersion); !ok {
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
