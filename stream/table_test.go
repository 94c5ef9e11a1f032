package stream

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// Odd ones come back as they were: what is packed is only what is canonical.
var (
	oddUIDs = []string{"", "1", "3F2504E0-4F89-41D3-9A0C-0305E82C3301", "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
		"3f2504e0-4f89-41d3-9a0c-0305e82c330g", "3f2504e04f8941d39a0c0305e82c3301", "{3f2504e0-4f89-41d3-9a0c-0305e82c330}", strings.Repeat("u", 300), "\x00\xff"}
	oddVersions = []string{"", "0", "7", "007", "+7", "-7", "18446744073709551615", "18446744073709551616", "x", " 7", noVersion + "abc", strings.Repeat("9", 300)}
	oddNames    = []string{"", "a", "b", "a/b", "/", strings.Repeat("n", 127), strings.Repeat("n", 128), strings.Repeat("n", 1<<16), "\x00", "\xff\xfe"}
)

// play does random things to a table and to a map, and compares them.
func play(t *testing.T, next func(n int) int, steps, names int) {
	t.Helper()
	type entry struct {
		known
		seen bool
	}
	tab, model := newTable(), map[types.NamespacedName]entry{}
	pick := func(odd []string, usual string) string {
		if next(8) == 0 {
			return odd[next(len(odd))]
		}
		return usual
	}
	for range steps {
		name := namespacedName(pick(oddNames, fmt.Sprint("ns-", next(5))), pick(oddNames, fmt.Sprint("object-", next(names))))
		switch next(8) {
		case 0, 1, 2, 3:
			k := known{identity{name, types.UID(pick(oddUIDs, unpackUUID([16]byte{byte(next(256))}))), pick(oddVersions, fmt.Sprint(next(1000)))}, next(4) == 0}
			seen := next(2) == 0
			tab.set(k, seen)
			model[name] = entry{k, seen}
		case 4, 5, 6:
			tab.delete(name)
			delete(model, name)
		case 7:
			if next(10) == 0 {
				tab.unsee()
				for n, e := range model {
					e.seen = false
					model[n] = e
				}
			}
		}
		got, ok := tab.get(name)
		want, there := model[name]
		if ok != there || got != want.known || tab.len() != len(model) {
			t.Fatalf("%q: got %+v, %v, %d entries, want %+v, %v, %d", name, got, ok, tab.len(), want, there, len(model))
		}
	}
	all := map[types.NamespacedName]entry{}
	for k, seen := range tab.all() {
		all[k.NamespacedName] = entry{k, seen}
	}
	if diff := cmp.Diff(model, all, cmp.AllowUnexported(entry{}, known{}, identity{})); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	for name, want := range model {
		if got, ok := tab.get(name); !ok || got != want.known {
			t.Fatalf("%q: got %+v, %v, want %+v", name, got, ok, want.known)
		}
	}
}

func TestTableAgainstAMap(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 0))
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { play(t, r.IntN, 300, 1+r.IntN(100)) })
	}
	r := rand.New(rand.NewPCG(1, 1))
	play(t, r.IntN, 60_000, 8000) // grows to many chunks
}

func FuzzTable(f *testing.F) {
	f.Add([]byte("begin"))
	f.Fuzz(func(t *testing.T, b []byte) {
		i := 0
		next := func(n int) int {
			if len(b) == 0 {
				return 0
			}
			i++
			return (int(b[i%len(b)]) + i/len(b)) % n
		}
		play(t, next, 20+len(b), 10)
	})
}

func TestTableStaysSmall(t *testing.T) {
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	tab := newTable()
	// Names that come and go: no two are the same, a thousand live at a time.
	name := func(i int) types.NamespacedName {
		return namespacedName(fmt.Sprint("namespace-", i/100), fmt.Sprint("object-with-a-name-", i))
	}
	const alive, total = 1000, 200_000
	for i := range total {
		tab.set(known{identity: identity{name(i), types.UID(fmt.Sprint("odd uid ", i)), fmt.Sprint("odd version ", i)}}, true)
		if i >= alive {
			tab.delete(name(i - alive))
		}
	}
	if tab.len() != alive {
		t.Fatalf("%d are left, want %d", tab.len(), alive)
	}
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("%d bytes for %d objects after %d have come and gone", grown, alive, total)
	}
	for i := total - alive; i < total; i++ {
		tab.delete(name(i))
	}
	if grown := heap() - before; grown > 1<<18 {
		t.Errorf("%d bytes for no objects", grown)
	}
	runtime.KeepAlive(&tab)
}

// BenchmarkIndexMemory prints the live heap for each object of 100,000.
func BenchmarkIndexMemory(b *testing.B) {
	const n = 100_000
	objects := usualObjects(n)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		x := newIndex()
		for _, k := range objects {
			x.set(k)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "B/object")
		runtime.KeepAlive(x)
	}
}

// usualObjects have names, uids and versions of the usual length.
func usualObjects(n int) []known {
	r := rand.New(rand.NewPCG(1, 2))
	all := make([]known, n)
	for i := range all {
		var uid [16]byte
		for j := range uid {
			uid[j] = byte(r.UintN(256))
		}
		all[i] = known{identity: identity{
			namespacedName(fmt.Sprintf("team-shop-%02d", i%50), fmt.Sprintf("robot-7f9c6d4b8-x2x4z-%06d", i)),
			types.UID(unpackUUID(uid)), fmt.Sprint(100_000_000 + i),
		}}
	}
	return all
}

func BenchmarkIndex(b *testing.B) {
	objects := usualObjects(100_000)
	fill := func() *index {
		x := newIndex()
		for _, k := range objects {
			x.set(k)
		}
		return x
	}
	b.Run("get", func(b *testing.B) {
		x, i := fill(), 0
		for b.Loop() {
			x.get(objects[i%len(objects)].NamespacedName)
			i++
		}
	})
	b.Run("change", func(b *testing.B) {
		x, i := fill(), 0
		for b.Loop() {
			k := objects[i%len(objects)]
			k.version = "200000000"
			x.set(k)
			i++
		}
	})
	b.Run("remove and add", func(b *testing.B) {
		x, i := fill(), 0
		for b.Loop() {
			k := objects[i%len(objects)]
			x.delete(k.NamespacedName)
			x.set(k)
			i++
		}
	})
}
