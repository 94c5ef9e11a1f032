package stream

import (
	"runtime"
	"testing"
)

const benchmarked = 100_000

// BenchmarkIndexMemory prints the live heap for an object, of 100,000.
func BenchmarkIndexMemory(b *testing.B) {
	for b.Loop() {
		before := liveHeap()
		x := newIndex()
		for i := range benchmarked {
			x.enter(usual(i))
		}
		b.ReportMetric(float64(liveHeap()-before)/benchmarked, "B/object")
		runtime.KeepAlive(x)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what had a finalizer
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkIndexPut is one change of an object among 100,000.
func BenchmarkIndexPut(b *testing.B) {
	x := newIndex()
	var is, changed, others []object
	for i := range benchmarked {
		x.enter(usual(i))
		k := usual(i)
		is = append(is, objectOf(k))
		k.version = "1" + k.version
		changed = append(changed, objectOf(k))
		others = append(others, objectOf(usual(i+benchmarked)))
	}
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			drain(x.put(is[i*7919%benchmarked], true, listed))
		}
	})
	b.Run("changed", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if n := i * 7919; n/benchmarked%2 == 0 {
				drain(x.put(changed[n%benchmarked], true, listed))
			} else {
				drain(x.put(is[n%benchmarked], true, listed))
			}
		}
	})
	b.Run("new-and-removed", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			drain(x.put(others[i*7919%benchmarked], true, listed))
			drain(x.remove(others[i*7919%benchmarked], happened))
		}
	})
	b.Run("first-list", func(b *testing.B) {
		x := newIndex()
		for i := 0; b.Loop(); i++ {
			if i%benchmarked == 0 {
				x = newIndex()
			}
			drain(x.put(is[i%benchmarked], true, listed))
		}
	})
}
