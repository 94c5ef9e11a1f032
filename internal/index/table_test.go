package index

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"k8s.io/apimachinery/pkg/types"
)

// usual returns an entry whose names and version have the usual length.
func usual(i int) Entry {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	uid := fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), r.Uint32N(1<<16), r.Uint32N(1<<12), r.Uint32N(1<<12),
		r.Uint64N(1<<48))
	return Entry{named(fmt.Sprintf("team-a-%05d", i%50), fmt.Sprintf("robot-7f9c6d4b8-%05x-%06d", r.Uint32N(1<<20), i)),
		types.UID(uid), fmt.Sprint(40_000_000 + i)}
}

// footprint returns the memory of a table in bytes, without plain entries and the small maps of namespaces.
func footprint(x *table) int {
	p := &x.packed
	n := 4*cap(p.slots) + 64*len(p.namespaces)
	for _, c := range p.records.chunks {
		n += cap(c) * int(unsafe.Sizeof(record{}))
	}
	for _, c := range p.names.chunks {
		n += cap(c)
	}
	return n
}

func TestIndexIsCompact(t *testing.T) {
	x := New(nil)
	for i := range 100_000 {
		x.Enter(usual(i))
	}
	if n := footprint(&x.table) / x.Len(); n > 70 || x.table.plainCount > 0 {
		t.Errorf("%d bytes for an object and %d plain entries, want at most 70 and none", n, x.table.plainCount)
	}
	small := New(nil)
	small.Enter(usual(0))
	if n := footprint(&small.table); n > 300 {
		t.Errorf("%d bytes for one object, want at most 300: most streams have few objects", n)
	}
}

func TestIndexDoesNotGrow(t *testing.T) {
	const live, rounds = 1_000, 30_000
	tests := []struct {
		name string
		of   func(i int) Entry
		why  string
	}{
		{"names", usual, "names come and go, as those of Pods"},
		{"namespaces", func(i int) Entry {
			e := usual(i)
			e.Namespace = fmt.Sprintf("preview-%d", i)
			return e
		}, "namespaces come and go"},
		{"plain entries", func(i int) Entry {
			e := usual(i)
			e.Version = fmt.Sprintf("v%d", i)
			return e
		}, "plain entries come and go"},
		{"packed and plain entries", func(i int) Entry {
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
			// Two chunks of 32 KiB may be almost empty.
			if limit := live*250 + 2<<15; most > limit {
				t.Errorf("%s: %d bytes, want at most %d", tt.why, most, limit)
			}
			checkPacked(t, &x.table)
		})
	}
}

func TestIndexShrinks(t *testing.T) {
	x := New(nil)
	const many, few = 20_000, 10
	plain := func(i int) Entry {
		e := usual(i)
		e.Name, e.Version = "plain-"+e.Name, "x"
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
	if n := footprint(&x.table); n > 32<<10 || len(x.table.plain) != few {
		t.Errorf("%d bytes and %d plain entries, want at most 32 KiB and 10", n, len(x.table.plain))
	}
	for i := many - few; i < many; i++ {
		if !x.Has(usual(i)) || !x.Has(plain(i)) {
			t.Errorf("entry %d is lost", i)
		}
	}
}

// No server should send such a name, uid or version.
func TestUnusualEntriesAreReturnedUnchanged(t *testing.T) {
	x := New(nil)
	want := map[types.NamespacedName]Entry{}
	enter := func(k Entry) {
		x.Enter(k)
		want[k.NamespacedName] = k
	}
	for i, uid := range someUIDs {
		for j, version := range append(someVersions, fmt.Sprint(uint64(math.MaxUint64))) {
			enter(Entry{named("ns", fmt.Sprintf("%d-%d", i, j)), uid, version})
		}
	}
	for _, n := range []int{0, 1, 254, 255, 256, 1 << 15, 1 << 20} {
		enter(Entry{named("ns", strings.Repeat("n", n)), "u", "1"})
		enter(Entry{named("ns", strings.Repeat("m", n)), "", "1"})
		enter(Entry{named(strings.Repeat("n", n), "name"), "", "1"})
	}
	for _, k := range want {
		if got, _, ok := x.get(k); !ok || got != k {
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
		r, got := pack(Entry{UID: tt.uid, Version: tt.version}, false)
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

// The hashes of the objects may collide.
func TestSameNameIsFoundInEachNamespace(t *testing.T) {
	of := func(i int) Entry {
		return Entry{named(fmt.Sprint("ns-", i), "kube-root-ca.crt"), "", fmt.Sprint(i)}
	}
	for range 100 { // seeds of the hash
		x := newTable()
		for i := range 8 << tagBits {
			x.packed.number(of(i).Namespace)
		}
		for i := range 8 { // objects of one name and tag, in few slots
			x.set(of(i<<tagBits), true)
		}
		for i := range 8 {
			if got, _, ok := x.get(of(i<<tagBits).NamespacedName, ""); !ok || got != of(i<<tagBits) {
				t.Fatalf("got %v, want %v", got, of(i<<tagBits))
			}
		}
	}
}

// The entry has no room after repacking.
func TestEntryWithoutRoomBecomesPlain(t *testing.T) {
	// The names fill two chunks to the last byte. In the order of their records, one of which was used again, they need
	// more room.
	x := newTable()
	x.packed = newPacked(limits{records: 1000, chunks: 2, waste: 1000})
	count := 0
	enter := func(n int) Entry {
		count++
		k := Entry{named("ns", fmt.Sprintf("%0*d", n-1, count)), "", "1"}
		x.set(k, true)
		return k
	}
	gone := enter(3)
	var want []Entry
	for range 127 {
		want = append(want, enter(256))
	}
	want = append(want, enter(1<<15-3-127*256))
	for range 127 {
		want = append(want, enter(256))
	}
	x.delete(gone.NamespacedName, gone.UID)
	want = append(want, enter(250), enter(6))
	if x.plainCount > 0 {
		t.Fatal("the entries do not fit before repacking")
	}
	x.packed.limits.waste = -1000
	x.repack()
	if x.plainCount != 1 {
		t.Errorf("%d plain entries, want 1", x.plainCount)
	}
	for _, k := range want {
		if got, _, ok := x.get(k.NamespacedName, k.UID); !ok || got != k {
			t.Errorf("got %v, want %v", got, k)
		}
	}
	checkPacked(t, &x)
}
