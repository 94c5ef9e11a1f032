package stream

import (
	"hash/maphash"
	"iter"
	"math/bits"

	"k8s.io/apimachinery/pkg/types"
)

// table holds the entries of an index in some 60 bytes each, where a map of
// structs takes 200: a uid is 16 bytes and not 36, a version 8, a namespace is
// kept once for all its objects, names lie end to end, and nothing is a pointer
// that the garbage collector has to follow.
//
// It is a hash table with linear probing: slots hold the numbers of records, plus
// one. It is built anew when more of it is waste than is not.
type table struct {
	seed    maphash.Seed
	slots   []uint32
	records []*[recordsPerChunk]record
	live    int    // records in use
	used    uint32 // records in use, or freed
	free    uint32 // a freed record, plus one; its version is the next one

	texts      arena
	namespaces intern
}

const recordsPerChunk = 1 << 9

// record is an entry.
type record struct {
	uid     [16]byte // a UUID, or where its text lies
	version uint64   // a number, or where its text lies
	name    uint32   // where it lies
	space   uint32   // the number of the namespace, and flags
}

// The flags in record.space. The rest is room for 2^27 namespaces.
const (
	flagSeen        = 1 << 31
	flagHidden      = 1 << 30
	flagUIDText     = 1 << 29
	flagVersionText = 1 << 28
	flagFree        = 1 << 27
	spaceMask       = 1<<27 - 1
)

func newTable() table { return table{seed: maphash.MakeSeed()} }

func (t *table) len() int { return t.live }

func (t *table) full() bool {
	return t.texts.full() || len(t.namespaces.texts) > spaceMask/2 || t.used > 1<<31
}

func (t *table) record(n uint32) *record { return &t.records[n/recordsPerChunk][n%recordsPerChunk] }

// hash of a name, as a place among the slots.
func (t *table) home(name types.NamespacedName) uint32 {
	var h maphash.Hash
	h.SetSeed(t.seed)
	h.WriteString(name.Namespace)
	h.WriteByte('/')
	h.WriteString(name.Name)
	place, _ := bits.Mul64(h.Sum64(), uint64(len(t.slots)))
	return uint32(place)
}

func (t *table) next(slot uint32) uint32 {
	if slot++; slot < uint32(len(t.slots)) {
		return slot
	}
	return 0
}

// find returns the slot of a name, or the empty one where it would be.
func (t *table) find(name types.NamespacedName) (slot uint32, ok bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	for slot = t.home(name); t.slots[slot] != 0; slot = t.next(slot) {
		r := t.record(t.slots[slot] - 1)
		if t.texts.equal(r.name, name.Name) && t.namespaces.name(r.space&spaceMask) == name.Namespace {
			return slot, true
		}
	}
	return slot, false
}

func (t *table) get(name types.NamespacedName) (known, bool) {
	slot, ok := t.find(name)
	if !ok {
		return known{}, false
	}
	r := t.record(t.slots[slot] - 1)
	return known{identity{name, t.uid(r), t.version(r)}, r.space&flagHidden != 0}, true
}

// set enters or replaces an entry.
func (t *table) set(k known, seen bool) {
	t.put(k, seen)
	t.tidy()
}

func (t *table) put(k known, seen bool) {
	slot, ok := t.find(k.NamespacedName)
	if !ok {
		if (t.live+1)*4 > len(t.slots)*3 {
			t.rehash(len(t.slots)*3/2 + 16)
			slot, _ = t.find(k.NamespacedName)
		}
		n := t.allocate()
		t.slots[slot] = n + 1
		*t.record(n) = record{name: t.texts.put(k.Name), space: t.namespaces.put(k.Namespace)}
		t.live++
	}
	r := t.record(t.slots[slot] - 1)
	t.dropTexts(r)
	r.space &= spaceMask
	if uid, ok := packUUID(string(k.uid)); ok {
		r.uid = uid
	} else {
		r.uid = packRef(t.texts.put(string(k.uid)))
		r.space |= flagUIDText
	}
	if version, ok := packNumber(k.version); ok {
		r.version = version
	} else {
		r.version = uint64(t.texts.put(k.version))
		r.space |= flagVersionText
	}
	if k.hidden {
		r.space |= flagHidden
	}
	if seen {
		r.space |= flagSeen
	}
}

func (t *table) delete(name types.NamespacedName) {
	slot, ok := t.find(name)
	if !ok {
		return
	}
	n := t.slots[slot] - 1
	r := t.record(n)
	t.dropTexts(r)
	t.texts.drop(r.name)
	t.namespaces.drop(r.space & spaceMask)
	*r = record{version: uint64(t.free), space: flagFree}
	t.free = n + 1
	t.live--
	t.close(slot)
	t.tidy()
}

// close fills the gap at a slot with those behind it that may lie there: those
// whose home is not between the gap and where they are.
func (t *table) close(gap uint32) {
	for slot := t.next(gap); t.slots[slot] != 0; slot = t.next(slot) {
		home := t.home(t.nameOf(t.record(t.slots[slot] - 1)))
		between := gap < home && home <= slot
		if slot < gap { // around the end
			between = gap < home || home <= slot
		}
		if !between {
			t.slots[gap] = t.slots[slot]
			gap = slot
		}
	}
	t.slots[gap] = 0
}

// dropTexts lets go of what set writes anew.
func (t *table) dropTexts(r *record) {
	if r.space&flagUIDText != 0 {
		t.texts.drop(unpackRef(r.uid))
	}
	if r.space&flagVersionText != 0 {
		t.texts.drop(uint32(r.version))
	}
	r.space &^= flagUIDText | flagVersionText
}

func (t *table) allocate() uint32 {
	if t.free != 0 {
		n := t.free - 1
		t.free = uint32(t.record(n).version)
		return n
	}
	if int(t.used) == len(t.records)*recordsPerChunk {
		t.records = append(t.records, new([recordsPerChunk]record))
	}
	t.used++
	return t.used - 1
}

// rehash makes room for n slots.
func (t *table) rehash(n int) {
	t.slots = make([]uint32, n)
	for i := range t.used {
		if r := t.record(i); r.space&flagFree == 0 {
			slot, _ := t.find(t.nameOf(r))
			t.slots[slot] = i + 1
		}
	}
}

// tidy builds the table anew if more of it is waste than is not, so that names
// that come and go for ever do not fill it.
func (t *table) tidy() {
	if !t.texts.wasteful() && int(t.used) <= 2*t.live+2*recordsPerChunk && len(t.slots) <= 4*t.live+64 {
		return
	}
	fresh := newTable()
	fresh.slots = make([]uint32, t.live*8/5+16)
	for k, seen := range t.all() {
		fresh.put(k, seen)
	}
	*t = fresh
}

// unsee makes every entry unseen.
func (t *table) unsee() {
	for i := range t.used {
		t.record(i).space &^= flagSeen
	}
}

// all yields the entries, and whether they were seen. The table must not change
// meanwhile.
func (t *table) all() iter.Seq2[known, bool] {
	return func(yield func(known, bool) bool) {
		for i := range t.used {
			r := t.record(i)
			if r.space&flagFree != 0 {
				continue
			}
			k := known{identity{t.nameOf(r), t.uid(r), t.version(r)}, r.space&flagHidden != 0}
			if !yield(k, r.space&flagSeen != 0) {
				return
			}
		}
	}
}

func (t *table) nameOf(r *record) types.NamespacedName {
	return namespacedName(t.namespaces.name(r.space&spaceMask), t.texts.get(r.name))
}

func (t *table) uid(r *record) types.UID {
	if r.space&flagUIDText != 0 {
		return types.UID(t.texts.get(unpackRef(r.uid)))
	}
	return types.UID(unpackUUID(r.uid))
}

func (t *table) version(r *record) string {
	if r.space&flagVersionText != 0 {
		return t.texts.get(uint32(r.version))
	}
	return unpackNumber(r.version)
}
