package index

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// table holds the entries of an Index, in shards by the hash of their names. It has as many shards as its entries need,
// so that no change moves more than the entries of one shard: while the table grows, one shard after the other is
// split in two, and while it shrinks, the last one is merged into the one that it came from (linear hashing).
//
// Deletions leave holes in a shard. Once there are more than half as many of them as entries, the shard is packed
// again, so that names that come and go don't fill the memory.
type table struct {
	spaces *spaces // of all shards, which share the names of namespaces
	shards []*shard
	len    int
	limits limits
}

// limits say when shards are changed. Tests use smaller ones than usualLimits.
type limits struct {
	shard int // entries of a shard, on average, before one is split; it may have twice as many
	waste int // deleted records that are not worth packing a shard again
}

var usualLimits = limits{shard: 8192, waste: 64}

func newTable(l limits) table {
	s := newSpaces(maphash.MakeSeed())
	return table{spaces: s, shards: []*shard{newShard(s, 0)}, limits: l}
}

// key returns a name with its hash.
func (t *table) key(name types.NamespacedName) key { return key{name, t.spaces.hash(name)} }

// of returns the shard of a hash. Its number is in as many bits of the hash as the numbers of shards have, or in one
// less if there is no such shard yet.
func (t *table) of(hash uint64) *shard {
	n := len(t.shards)
	mask := 1<<bits.Len(uint(n-1)) - 1
	i := int(hash>>tagBits) & mask
	if i >= n {
		i &= mask >> 1
	}
	return t.shards[i]
}

// set enters an object that was seen, or updates its entry.
func (t *table) set(e objects.Version) {
	t.change(e.NamespacedName(), func(s *shard, name key) { s.set(name, e, true) })
}

func (t *table) delete(id objects.ID) {
	t.change(id.NamespacedName(), func(s *shard, name key) { s.delete(name, id.UID) })
}

// change calls f with a name and its shard, and adapts the shards to what f has changed.
func (t *table) change(name types.NamespacedName, f func(*shard, key)) {
	k := t.key(name)
	s := t.of(k.hash)
	before := s.len()
	f(s, k)
	t.len += s.len() - before
	switch n := len(t.shards); {
	case t.len > n*t.limits.shard:
		t.split()
	case n > 1 && t.len < n*t.limits.shard/4:
		last := t.shards[n-1]
		t.shards = slices.Delete(t.shards, n-1, n)
		last.moveTo(t.of)
	case s.packed.deleted > s.packed.live/2+t.limits.waste:
		old := *s
		*s = *newShard(t.spaces, old.packed.live)
		old.moveTo(func(uint64) *shard { return s })
	}
}

// split adds a shard, and moves to it what it has of the shard whose number lacks the highest bit of its own.
func (t *table) split() {
	n := len(t.shards)
	from := n - 1<<(bits.Len(uint(n))-1)
	old := t.shards[from]
	half := old.packed.live / 2
	t.shards[from] = newShard(t.spaces, half)
	t.shards = append(t.shards, newShard(t.spaces, half))
	old.moveTo(t.of)
}

// each calls f with each shard, from the last to the first. If f deletes entries, shards that were visited may be
// merged into others, but not the other way round.
func (t *table) each(f func(*shard)) {
	for i := len(t.shards) - 1; i >= 0; i = min(i, len(t.shards)) - 1 {
		f(t.shards[i])
	}
}

// spaces numbers the namespaces of packed entries, so that an entry needs 4 bytes for its namespace.
type spaces struct {
	seed    maphash.Seed
	list    chunks[space]
	numbers map[string]uint32 // the place of each namespace in list
	free    uint32            // the first place that is free, plus one, or 0
}

type space struct {
	name  string
	hash  uint64
	count uint32 // entries; of a free place the next one, plus one
}

func newSpaces(seed maphash.Seed) *spaces {
	return &spaces{seed: seed, list: chunks[space]{bits: recordBits}, numbers: map[string]uint32{}}
}

// hash returns the hash of a name.
func (s *spaces) hash(name types.NamespacedName) uint64 {
	return joined(maphash.String(s.seed, name.Namespace), maphash.String(s.seed, name.Name))
}

// hashOf returns the hash of a name in a namespace without allocating a string.
func (s *spaces) hashOf(namespace, name []byte) uint64 {
	return joined(maphash.Bytes(s.seed, namespace), maphash.Bytes(s.seed, name))
}

// hashIn returns the hash of a name in the namespace of a number.
func (s *spaces) hashIn(n uint32, name []byte) uint64 {
	return joined(s.list.at(n).hash, maphash.Bytes(s.seed, name))
}

// joined returns one hash for the hashes of a namespace and a name. They may be the same: the multiplication, by an odd
// number with bits everywhere, makes them differ.
func joined(namespace, name uint64) uint64 { return name ^ namespace*0x9e3779b97f4a7c15 }

// take returns the number of a namespace, for one more entry. Entries of more namespaces than spaceMask can count would
// take more than 64 GiB.
func (s *spaces) take(namespace string) uint32 {
	n, ok := s.numbers[namespace]
	if !ok {
		namespace = strings.Clone(namespace) // the object's strings share memory
		added := space{name: namespace, hash: maphash.String(s.seed, namespace)}
		if s.free != 0 {
			n = s.free - 1
			s.free = s.list.at(n).count
			*s.list.at(n) = added
		} else {
			n = s.list.append(added)
		}
		s.numbers[namespace] = n
	}
	s.list.at(n).count++
	return n
}

// release returns the number of a namespace, for one entry less.
func (s *spaces) release(n uint32) {
	of := s.list.at(n)
	if of.count--; of.count > 0 {
		return
	}
	delete(s.numbers, of.name)
	*of = space{count: s.free}
	s.free = n + 1
	if len(s.numbers) == 0 {
		*s = *newSpaces(s.seed) // a map does not shrink
	}
}
