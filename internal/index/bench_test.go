package index

import (
	"runtime"
	"testing"
)

const benchmarked = 100_000

// BenchmarkIndexMemory reports the live heap per object, for 100,000 objects.
func BenchmarkIndexMemory(b *testing.B) {
	for b.Loop() {
		before := liveHeap()
		x := New(nil)
		for i := range benchmarked {
			x.Enter(usual(i))
		}
		b.ReportMetric(float64(liveHeap()-before)/benchmarked, "B/object")
		runtime.KeepAlive(x)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // frees what had a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkIndexPut measures one change of an object among 100,000.
func BenchmarkIndexPut(b *testing.B) {
	x := New(nil)
	var known, changed, others []Entry
	for i := range benchmarked {
		x.Enter(usual(i))
		e := usual(i)
		known = append(known, e)
		e.Version = "1" + e.Version
		changed = append(changed, e)
		others = append(others, usual(i+benchmarked))
	}
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			x.Put(known[i*7919%benchmarked], true, Listed, nil)
		}
	})
	b.Run("changed", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if n := i * 7919; n/benchmarked%2 == 0 {
				x.Put(changed[n%benchmarked], true, Listed, nil)
			} else {
				x.Put(known[n%benchmarked], true, Listed, nil)
			}
		}
	})
	b.Run("new-and-removed", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			x.Put(others[i*7919%benchmarked], true, Listed, nil)
			x.Remove(others[i*7919%benchmarked], Happened, nil)
		}
	})
	b.Run("first-list", func(b *testing.B) {
		x := New(nil)
		for i := 0; b.Loop(); i++ {
			if i%benchmarked == 0 {
				x = New(nil)
			}
			x.Put(known[i%benchmarked], true, Listed, nil)
		}
	})
}
