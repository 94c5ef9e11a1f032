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

// usual is an object with names and versions of usual length.
func usual(i int) Entry {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	uid := fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", r.Uint32(), r.Uint32N(1<<16), r.Uint32N(1<<12), r.Uint32N(1<<12), r.Uint64N(1<<48))
	return Entry{named(fmt.Sprintf("team-a-%05d", i%50), fmt.Sprintf("robot-7f9c6d4b8-%05x-%06d", r.Uint32N(1<<20), i)), types.UID(uid), fmt.Sprint(40_000_000 + i)}
}

// footprint is what a table takes, but for the few bytes of its maps of
// namespaces and for what odd objects take.
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
	x := New()
	for i := range 100_000 {
		x.Enter(usual(i))
	}
	if n := footprint(&x.table) / x.Len(); n > 70 || x.table.plainCount > 0 {
		t.Errorf("%d bytes for an object and %d odd ones, want at most 70 and none", n, x.table.plainCount)
	}
	small := New()
	small.Enter(usual(0))
	if n := footprint(&small.table); n > 300 {
		t.Errorf("%d bytes for one object: many streams have few", n)
	}
}

func TestIndexDoesNotGrow(t *testing.T) {
	const live, rounds = 1_000, 30_000
	tests := []struct {
		name string
		of   func(i int) Entry
		why  string
	}{
		{"names", usual, "Pods come and go for ever"},
		{"namespaces", func(i int) Entry {
			k := usual(i)
			k.Namespace = fmt.Sprintf("preview-%d", i)
			return k
		}, "so do namespaces"},
		{"odd ones", func(i int) Entry {
			k := usual(i)
			k.Version = fmt.Sprintf("v%d", i)
			return k
		}, "and what can't be packed"},
		{"in turns", func(i int) Entry {
			k := usual(i)
			if i%3 == 0 {
				k.Name += strings.Repeat("-long", 100)
			}
			return k
		}, "and both"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := New()
			most := 0
			for i := range rounds {
				x.Enter(tt.of(i))
				if i >= live {
					drain(x.Remove((tt.of(i - live)), Happened))
				}
				if i%50 == 0 {
					most = max(most, footprint(&x.table))
				}
			}
			if x.Len() != live {
				t.Fatalf("%d are known, want %d", x.Len(), live)
			}
			// Two chunks of 32 KiB may hardly be begun.
			if limit := live*250 + 2<<15; most > limit {
				t.Errorf("%s: %d bytes, want at most %d", tt.why, most, limit)
			}
			checkPacked(t, &x.table)
		})
	}
}

func TestIndexShrinks(t *testing.T) {
	x := New()
	const many, few = 20_000, 10
	odd := func(i int) Entry {
		k := usual(i)
		k.Name, k.Version = "odd-"+k.Name, "x"
		return k
	}
	for i := range many {
		x.Enter(usual(i))
		x.Enter(odd(i))
	}
	for i := range many - few {
		drain(x.Remove((usual(i)), Happened))
		drain(x.Remove((odd(i)), Happened))
	}
	if n := footprint(&x.table); n > 32<<10 || len(x.table.plain) != few {
		t.Errorf("%d bytes, and a map of %d odd ones: most of the bytes should have gone, and all the others", n, len(x.table.plain))
	}
	for i := many - few; i < many; i++ {
		if !x.Has(usual(i)) || !x.Has(odd(i)) {
			t.Errorf("%d is not known any longer", i)
		}
	}
}

// TestIndexKeepsOdd is for a server that sends what no server should.
func TestIndexKeepsOdd(t *testing.T) {
	x := New()
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
		t.Errorf("%d are known, want %d", x.Len(), len(want))
	}
}

func TestPack(t *testing.T) {
	const uid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	tests := []struct {
		uid     types.UID
		version string
		want    bool
		why     string
	}{
		{uid, "1", true, "usual"},
		{uid, "0", true, "a number"},
		{uid, "18446744073709551615", true, "the largest that there is room for"},
		{"", "1", true, "a fake's object with a version"},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", "1", true, "all digits"},
		{uid, "18446744073709551616", false, "no room"},
		{uid, "", false, "no number"},
		{uid, "01", false, "would come out as 1"},
		{uid, "+1", false, "would come out as 1"},
		{uid, "#1", false, "a hash"},
		{"00000000-0000-0000-0000-000000000000", "1", false, "would come out as none"},
		{"6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "1", false, "would come out in lower case"},
		{"6ba7b810-9dad-11d1-80b4x00c04fd430c8", "1", false, "would come out with a dash"},
		{"6ba7b8109-dad-11d1-80b4-00c04fd430c8", "1", false, "a dash for a digit"},
		{"{6ba7b810-9dad-11d1-80b4-00c04fd430c8}", "1", false, "too long"},
	}
	for _, tt := range tests {
		r, got := pack(Entry{UID: tt.uid, Version: tt.version}, false)
		if got != tt.want {
			t.Errorf("pack(%s, %s) is %v, want %v: %s", tt.uid, tt.version, got, tt.want, tt.why)
		}
		if got && (r.unpackUID() != tt.uid || r.unpackVersion() != tt.version) {
			t.Errorf("%s, %s comes out as %s, %s", tt.uid, tt.version, r.unpackUID(), r.unpackVersion())
		}
	}
}

// TestIndexWatched asks from other goroutines, for the race detector.
func TestIndexWatched(t *testing.T) {
	x := New()
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
					t.Errorf("%d are known, there are never more than 100", n)
				}
			}
		})
	}
	for i := range 5_000 {
		drain(x.Put((usual(i)), true, Happened))
		if i >= 99 {
			drain(x.Remove((usual(i - 99)), Happened))
		}
	}
	close(stop)
	wg.Wait()
}

func TestIndexTellsNamespacesApart(t *testing.T) {
	of := func(i int) Entry {
		return Entry{named(fmt.Sprint("ns-", i), "kube-root-ca.crt"), "", fmt.Sprint(i)}
	}
	for range 100 { // hashes
		x := newTable()
		for i := range 8 << tagBits {
			x.packed.number(of(i).Namespace)
		}
		for i := range 8 { // of one name and tag, in few slots
			x.set(of(i<<tagBits), true)
		}
		for i := range 8 {
			if got, _, ok := x.get(of(i<<tagBits).NamespacedName, ""); !ok || got != of(i<<tagBits) {
				t.Fatalf("got %v, want %v", got, of(i<<tagBits))
			}
		}
	}
}

func TestTidyFindsRoom(t *testing.T) {
	// Two chunks are filled to the last byte by names of n bytes (and their lengths).
	// In the order of the records, one of which was used again, they need more.
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
		t.Fatal("they do not fit before")
	}
	x.packed.limits.waste = -1000
	x.repack()
	if x.plainCount != 1 {
		t.Errorf("%d did not fit, want 1", x.plainCount)
	}
	for _, k := range want {
		if got, _, ok := x.get(k.NamespacedName, k.UID); !ok || got != k {
			t.Errorf("got %v, want %v", got, k)
		}
	}
	checkPacked(t, &x)
}
