package index

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// usual returns an entry whose names and version have the usual length.
func usual(i int) objects.Version {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	uid := fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), r.Uint32N(1<<16), r.Uint32N(1<<12), r.Uint32N(1<<12),
		r.Uint64N(1<<48))
	name := named(fmt.Sprintf("team-a-%05d", i%50), fmt.Sprintf("robot-7f9c6d4b8-%05x-%06d", r.Uint32N(1<<20), i))
	return versionOf(name, types.UID(uid), fmt.Sprint(40_000_000+i))
}

// The strings of an object share memory, of which the index keeps nothing.
func TestIndexKeepsNoStringOfAnObject(t *testing.T) {
	for _, uid := range []string{uuid + "1", "odd"} {
		text := uid + "/namespace/name/5"
		object := strings.Clone(text)
		x := New(nil)
		n := len(uid) + 1
		x.Enter(versionOf(named(object[n:n+9], object[n+10:n+14]), types.UID(object[:len(uid)]), object[n+15:]))
		begin := uintptr(unsafe.Pointer(unsafe.StringData(object)))
		within := func(s string) bool {
			at := uintptr(unsafe.Pointer(unsafe.StringData(s)))
			return begin <= at && at < begin+uintptr(len(object))
		}
		for name := range x.table.spaces.numbers {
			if within(name) {
				t.Errorf("uid %s: the namespace is a part of the object", uid)
			}
		}
		for _, e := range x.All() {
			if within(e.Namespace) || within(e.Name) || within(string(e.UID)) || within(e.ResourceVersion) {
				t.Errorf("uid %s: the entry has a part of the object", uid)
			}
		}
		runtime.KeepAlive(object)
	}
}

// footprint returns the memory of a table in bytes, without plain entries.
func footprint(x *table) int {
	n := 64 * len(x.spaces.numbers)
	for _, c := range x.spaces.list.chunks {
		n += cap(c) * int(unsafe.Sizeof(space{}))
	}
	x.each(func(s *shard) {
		n += 4 * cap(s.packed.slots)
		for _, c := range s.packed.records.chunks {
			n += cap(c) * int(unsafe.Sizeof(record{}))
		}
		for _, c := range s.packed.text.chunks {
			n += cap(c)
		}
	})
	return n
}

// plainEntries returns the number of entries that are not packed.
func plainEntries(x *table) (n int) {
	x.each(func(s *shard) { n += s.plainCount })
	return n
}

func TestIndexIsCompact(t *testing.T) {
	x := New(nil)
	for i := range 100_000 {
		x.Enter(usual(i))
	}
	if n := footprint(&x.table) / x.Len(); n > 70 || plainEntries(&x.table) > 0 {
		t.Errorf("%d bytes for an object and %d plain entries, want at most 70 and none", n, plainEntries(&x.table))
	}
	small := New(nil)
	small.Enter(usual(0))
	if n := footprint(&small.table); n > 300 {
		t.Errorf("%d bytes for one object, want at most 300: most streams have few objects", n)
	}
}

// The longest change moves the entries of one shard.
func TestShardsStaySmall(t *testing.T) {
	x := newTable(limits{shard: 100, waste: 64})
	for i := range 20_000 {
		x.set(usual(i))
		if i%1000 == 0 {
			x.each(func(s *shard) {
				if s.len() > 300 {
					t.Errorf("%d entries in a shard, want at most 300", s.len())
				}
			})
		}
	}
}

func TestIndexDoesNotGrow(t *testing.T) {
	const live, rounds = 1_000, 30_000
	tests := []struct {
		name string
		of   func(i int) objects.Version
		why  string
	}{
		{"names", usual, "names come and go, as those of Pods"},
		{"namespaces", func(i int) objects.Version {
			e := usual(i)
			e.Namespace = fmt.Sprintf("preview-%d", i)
			return e
		}, "namespaces come and go"},
		{"plain entries", func(i int) objects.Version {
			e := usual(i)
			e.ResourceVersion = fmt.Sprintf("v%d", i)
			return e
		}, "plain entries come and go"},
		{"packed and plain entries", func(i int) objects.Version {
			e := usual(i)
			if i%3 == 0 {
				e.Name += strings.Repeat("-long", 100)
			}
			return e
		}, "packed and plain entries come and go"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New(nil)
			most := 0
			for i := range rounds {
				x.Enter(tt.of(i))
				if i >= live {
					x.Remove(tt.of(i-live), Happened, nil)
				}
				if i%50 == 0 {
					most = max(most, footprint(&x.table))
				}
			}
			if x.Len() != live {
				t.Fatalf("%d entries, want %d", x.Len(), live)
			}
			// Two chunks of 8 KiB may be almost empty.
			if limit := live*250 + 2<<13; most > limit {
				t.Errorf("%s: %d bytes, want at most %d", tt.why, most, limit)
			}
			checkTable(t, &x.table)
		})
	}
}

func TestIndexShrinks(t *testing.T) {
	x := New(nil)
	const many, few = 20_000, 10
	plain := func(i int) objects.Version {
		e := usual(i)
		e.Name, e.ResourceVersion = "plain-"+e.Name, "x"
		return e
	}
	for i := range many {
		x.Enter(usual(i))
		x.Enter(plain(i))
	}
	for i := range many - few {
		x.Remove(usual(i), Happened, nil)
		x.Remove(plain(i), Happened, nil)
	}
	if n := footprint(&x.table); n > 32<<10 || plainEntries(&x.table) != few {
		t.Errorf("%d bytes and %d plain entries, want at most 32 KiB and 10", n, plainEntries(&x.table))
	}
	for i := many - few; i < many; i++ {
		if !x.Has(usual(i).ID) || !x.Has(plain(i).ID) {
			t.Errorf("entry %d is lost", i)
		}
	}
}

// No server should send such a name, uid or version.
func TestUnusualEntriesAreReturnedUnchanged(t *testing.T) {
	x := New(nil)
	want := map[types.NamespacedName]objects.Version{}
	enter := func(k objects.Version) {
		x.Enter(k)
		want[k.NamespacedName()] = k
	}
	for i, uid := range someUIDs {
		for j, version := range append(someVersions, fmt.Sprint(uint64(math.MaxUint64))) {
			enter(versionOf(named("ns", fmt.Sprintf("%d-%d", i, j)), uid, version))
		}
	}
	for _, n := range []int{0, 1, 254, 255, 256, 1 << 15, 1 << 20} {
		enter(versionOf(named("ns", strings.Repeat("n", n)), "u", "1"))
		enter(versionOf(named("ns", strings.Repeat("m", n)), "", "1"))
		enter(versionOf(named(strings.Repeat("n", n), "name"), "", "1"))
	}
	for _, k := range want {
		if got, _, ok := x.get(k.ID); !ok || got != k {
			t.Errorf("got %.200q, want %.200q", fmt.Sprint(got), fmt.Sprint(k))
		}
	}
	if x.Len() != len(want) {
		t.Errorf("%d entries, want %d", x.Len(), len(want))
	}
}

func TestOnlyWhatUnpacksUnchangedIsPacked(t *testing.T) {
	const uid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	tests := []struct {
		uid     types.UID
		version string
		want    bool
		why     string
	}{
		{uid, "1", true, "the usual case"},
		{uid, "0", true, "0 is a number"},
		{uid, "18446744073709551615", true, "the largest uint64"},
		{"", "1", true, "the object of a fake may have a version and no uid"},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", "1", true, "the largest uid"},
		{uid, "18446744073709551616", false, "too large for a uint64"},
		{uid, "", false, "not a number"},
		{uid, "01", false, "would be unpacked as 1"},
		{uid, "+1", false, "would be unpacked as 1"},
		{uid, "#1", false, "a hash is not a number"},
		{"00000000-0000-0000-0000-000000000000", "1", false, "would be unpacked as an empty uid"},
		{"6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "1", false, "would be unpacked in lower case"},
		{"6ba7b810-9dad-11d1-80b4x00c04fd430c8", "1", false, "would be unpacked with a dash"},
		{"6ba7b8109-dad-11d1-80b4-00c04fd430c8", "1", false, "a dash in the place of a digit"},
		{"{6ba7b810-9dad-11d1-80b4-00c04fd430c8}", "1", false, "too long"},
	}
	for _, tt := range tests {
		r, got := pack(versionOf(types.NamespacedName{}, tt.uid, tt.version), false)
		if got != tt.want {
			t.Errorf("pack(%s, %s) is %v, want %v: %s", tt.uid, tt.version, got, tt.want, tt.why)
		}
		if got && (r.unpackUID() != tt.uid || r.unpackVersion() != tt.version) {
			t.Errorf("%s, %s is unpacked as %s, %s", tt.uid, tt.version, r.unpackUID(), r.unpackVersion())
		}
	}
}

// Other goroutines may call Len and All. The race detector checks that.
func TestOtherGoroutinesMayRead(t *testing.T) {
	x := New(nil)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := 0
				for range x.All() {
					n++
				}
				if n > 100 || x.Len() > 100 {
					t.Errorf("%d entries, there are never more than 100", n)
				}
			}
		})
	}
	for i := range 5_000 {
		x.Put(usual(i), true, Happened, nil)
		if i >= 99 {
			x.Remove(usual(i-99), Happened, nil)
		}
	}
	close(stop)
	wg.Wait()
}

func TestNamesOfOneHashAreDistinct(t *testing.T) {
	s := newShard(newSpaces(maphash.MakeSeed()), 10) // has slots for all, so that no hash is computed
	var entries []objects.Version
	for i, name := range []types.NamespacedName{named("a", "x"), named("b", "x"), named("a", "y"), named("", "x")} {
		entries = append(entries, versionOf(name, "", fmt.Sprint(i)))
	}
	const hash = 7
	for i, e := range entries {
		if s.hasName(hash, []byte(e.Namespace), []byte(e.Name)) {
			t.Errorf("%v is found before it is entered", e.NamespacedName())
		}
		s.set(key{e.NamespacedName(), hash}, e, true)
		for _, want := range entries[:i+1] {
			if got, _, ok := s.get(key{want.NamespacedName(), hash}, ""); !ok || got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		}
	}
}

// While EndList deletes, shards are merged.
func TestEndListDeliversEachDeletionOnce(t *testing.T) {
	const known, listed = 2_000, 300
	x := New(nil)
	x.table = newTable(limits{shard: 8})
	for i := range known {
		x.Enter(usual(i))
	}
	x.BeginList()
	for i := range listed {
		x.Enter(usual(i))
	}
	deleted := map[objects.Version]int{}
	interrupted := errors.New("interrupted")
	for {
		left := 100
		err := x.EndList(func(c Change) error {
			if deleted[*c.Gone]++; x.Has(c.Gone.ID) {
				t.Errorf("%v is delivered before it leaves the index", *c.Gone)
			}
			if left--; left == 0 {
				return interrupted
			}
			return nil
		})
		if err == nil {
			break
		}
	}
	for i := range known {
		want := 1
		if i < listed {
			want = 0
		}
		if e := usual(i); deleted[e] != want || x.Has(e.ID) != (want == 0) {
			t.Errorf("%v was deleted %d times, want %d", e, deleted[e], want)
		}
	}
	checkTable(t, &x.table)
}
