package index

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

const indexSeeds = seedtest.Default(60)

// modelEntry is the entry of an object in the model.
type modelEntry struct {
	objects.Version
	seen, stale bool
}

// model is the simplest table: a list of entries.
type model []modelEntry

func (m model) find(name types.NamespacedName, uid types.UID) int {
	return slices.IndexFunc(m, func(e modelEntry) bool {
		return e.NamespacedName() == name && objects.SameUID(e.UID, uid)
	})
}

// ambiguous reports whether a name and uid fit several entries, because only some of them have a uid: then any of them
// may be found.
func (m model) ambiguous(name types.NamespacedName, uid types.UID) bool {
	matches := 0
	for _, e := range m {
		if e.NamespacedName() == name && objects.SameUID(e.UID, uid) {
			matches++
		}
	}
	return matches > 1
}

// dice is a random generator, or the bytes of a fuzzer.
type dice interface{ IntN(n int) int }

type byteDice struct{ rest []byte }

func (d *byteDice) IntN(n int) int {
	if len(d.rest) == 0 {
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return int(b) % n
}

func pick[T any](d dice, from []T) T { return from[d.IntN(len(from))] }

var (
	someNamespaces = []string{"", "default", "kube-system", "a", "a/b", "\xff", strings.Repeat("n", 300)}
	someNames      = func() []string {
		names := []string{"", "b/c", "\x00", "ünïcode", strings.Repeat("x", 255), strings.Repeat("x", 256),
			strings.Repeat("huge", 250)}
		for i := range 30 {
			names = append(names, fmt.Sprintf("robot-%d", i))
		}
		return names
	}()
	someUIDs = []types.UID{
		"", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b811-9dad-11d1-80b4-00c04fd430c8",
		"ffffffff-ffff-ffff-ffff-ffffffffffff",
		"00000000-0000-0000-0000-000000000000", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8",
		"6ba7b8109dad11d180b400c04fd430c8",
		"6ba7b810-9dad-11d1-80b4-00c04fd430cg", "6ba7b810-9dad-11d1-80b4000c04fd430c8", "u-1", "\xff\x00",
		types.UID(strings.Repeat("u", 1000)),
	}
	someVersions = []string{
		"1", "2", "3", "10", "5000", "0", "00", "07", "", "-1", "+1", "1_0", " 1", "1.0", "#abc", "opaque",
		"18446744073709551615",
		"18446744073709551616", "99999999999999999999999999", "\xff", strings.Repeat("9", 1000),
	}
)

// runModel compares a table to the model through random operations.
func runModel(t *testing.T, d dice, operations int) {
	t.Helper()
	limits := usualLimits
	if d.IntN(4) > 0 { // shards that are split, merged and packed again often
		limits.shard, limits.waste = pick(d, []int{4, 7, 30}), d.IntN(12)
	}
	x := newTable(limits)
	var m model
	usual := d.IntN(3) // how many in 3 objects are usual
	for range operations {
		i := versionOf(named(pick(d, someNamespaces[:4]), pick(d, someNames[7:])), pick(d, someUIDs[1:4]),
			pick(d, someVersions[:5]))
		if d.IntN(3) >= usual {
			i = versionOf(named(pick(d, someNamespaces), pick(d, someNames)), pick(d, someUIDs), pick(d, someVersions))
		}
		if m.ambiguous(i.NamespacedName(), i.UID) {
			continue
		}
		at := m.find(i.NamespacedName(), i.UID)
		switch d.IntN(10) {
		case 0:
			x.each((*shard).unsee)
			for n := range m {
				m[n].seen = false
			}
		case 1:
			x.each((*shard).distrust)
			for n := range m {
				m[n].stale = true
			}
		case 2, 3, 4:
			x.delete(i.ID)
			if at >= 0 {
				m = slices.Delete(m, at, at+1)
			}
		default:
			x.set(i)
			if at < 0 {
				at, m = len(m), append(m, modelEntry{})
			}
			m[at] = modelEntry{Version: i, seen: true}
		}
		m.compare(t, &x, i)
	}
	var got []modelEntry
	x.each(func(s *shard) {
		for i, seen := range s.all() {
			_, stale, _ := s.get(x.key(i.NamespacedName()), i.UID)
			got = append(got, modelEntry{i, seen, stale})
		}
	})
	order := func(a, b modelEntry) int { return a.Compare(b.ID) }
	slices.SortFunc(got, order)
	slices.SortFunc(m, order)
	if !slices.Equal(m, got) {
		t.Fatalf("all entries (-want +got):\n%s",
			cmp.Diff([]modelEntry(m), got, cmp.AllowUnexported(modelEntry{})))
	}
	checkTable(t, &x)
}

// compare looks up an object, and the others of its name, in the table and in the model.
func (m model) compare(t *testing.T, x *table, i objects.Version) {
	t.Helper()
	var want modelEntry
	at := m.find(i.NamespacedName(), i.UID)
	if at >= 0 {
		want = m[at]
	}
	name := x.key(i.NamespacedName())
	s := x.of(name.hash)
	got, stale, ok := s.get(name, i.UID)
	if !m.ambiguous(i.NamespacedName(), i.UID) && (got != want.Version || stale != want.stale || ok != (at >= 0)) {
		t.Fatalf("%.100q: got %.100q, %v, %v", fmt.Sprint(want), fmt.Sprint(got), stale, ok)
	}
	others, named, seen := 0, false, false
	for _, e := range m {
		if e.NamespacedName() != i.NamespacedName() {
			continue
		}
		named = true
		seen = seen || e.seen && objects.SameUID(e.UID, i.UID)
		if !objects.SameUID(e.UID, i.UID) {
			others++
		}
	}
	gotOthers := len(s.others(name, i.UID))
	has := s.hasName(x.spaces.hashOf([]byte(i.Namespace), []byte(i.Name)), []byte(i.Namespace), []byte(i.Name))
	if s.saw(name, i.UID) != seen || x.len != len(m) || gotOthers != others || has != named {
		t.Fatalf("%.100q: %d entries, want %d; %d others of the name, want %d", fmt.Sprint(i), x.len, len(m),
			gotOthers, others)
	}
}

// checkTable checks what the model can't see: each object is in one place of the right shard, each slot and record has
// one owner, and the namespaces are counted.
func checkTable(t *testing.T, x *table) {
	t.Helper()
	entries, spaces := 0, map[string]uint32{}
	x.each(func(s *shard) {
		entries += s.len()
		checkShard(t, x, s)
		for r := range s.packed.all() {
			spaces[s.packed.namespace(r)]++
		}
	})
	got := map[string]uint32{}
	for name, n := range x.spaces.numbers {
		got[name] = x.spaces.list.at(n).count
	}
	if diff := cmp.Diff(spaces, got); diff != "" {
		t.Errorf("entries of each namespace (-want +got):\n%s", diff)
	}
	free := 0
	for n := x.spaces.free; n != 0; n = x.spaces.list.at(n - 1).count {
		free++
	}
	if n := len(x.spaces.numbers) + free; n != int(x.spaces.list.len) {
		t.Errorf("%d namespaces and free places, want %d", n, x.spaces.list.len)
	}
	if n := len(x.shards); entries != x.len || x.len > n*x.limits.shard {
		t.Errorf("%d entries in %d shards, want %d entries, at most %d for each", entries, n, x.len, x.limits.shard)
	}
}

func checkShard(t *testing.T, x *table, s *shard) {
	t.Helper()
	p := &s.packed
	slots := 0
	for _, s := range p.slots {
		if s != 0 {
			slots++
		}
	}
	var inUse, freeList int
	for r := range p.all() {
		inUse++
		found := false
		name := x.key(p.name(r))
		p.eachNamed(name, func(other *record) { found = found || other == r })
		if !found || x.of(name.hash) != s {
			t.Errorf("no slot leads to the record of %.100q", name.NamespacedName)
		}
		if slices.ContainsFunc(s.plain[p.name(r)], func(o plainEntry) bool { return o.uid == r.unpackUID() }) {
			t.Errorf("%.100q is both packed and plain", p.name(r))
		}
	}
	for n := p.free; n != 0; n = p.records.at(n - 1).name {
		freeList++
	}
	if slots != p.live || inUse != p.live || freeList != int(p.records.len)-p.live {
		t.Errorf("%d records live: %d slots, %d in use, %d of %d free", p.live, slots, inUse, freeList, p.records.len)
	}
	if len(p.slots) > 0 && p.live*4 > len(p.slots)*3 {
		t.Errorf("%d of %d slots are taken, at most three quarters may be", p.live, len(p.slots))
	}
}

func TestIndexModel(t *testing.T) {
	indexSeeds.Run(t, func(t *testing.T, seed uint64) {
		for n := range uint64(10) {
			runModel(t, rand.New(rand.NewPCG(seed, n)), 200)
		}
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1, 2, 3, 5, 7, 11, 13}, 40))
	r := rand.NewChaCha8([32]byte{})
	for _, n := range []int{100, 400, 1600} {
		b := make([]byte, n)
		r.Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		runModel(t, &byteDice{b}, min(len(b)/4, 2_000))
	})
}
