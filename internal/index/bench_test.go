package index

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/internal/objects"
)

const benchmarked = 100_000

// scale is how many objects the benchmarks of large indexes have.
var scale = flag.Int("objects", 200_000, "objects of BenchmarkIndexGrows and BenchmarkIndexEndList; try 10000000")

// BenchmarkIndexMemory reports the live heap per object, for 100,000 objects: those of a kube-apiserver are packed,
// others may not be.
func BenchmarkIndexMemory(b *testing.B) {
	for _, bb := range []struct {
		name  string
		entry func(int) objects.Version
	}{
		{"usual", usual},
		{"other uids", func(i int) objects.Version {
			v := usual(i)
			v.UID = types.UID("metrics-" + v.UID[8:])
			return v
		}},
		{"no uids", func(i int) objects.Version {
			v := usual(i)
			v.UID = ""
			return v
		}},
		{"other versions", func(i int) objects.Version {
			v := usual(i)
			v.ResourceVersion = "v" + v.ResourceVersion
			return v
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				before := liveHeap()
				x := New(nil)
				for i := range benchmarked {
					x.Enter(bb.entry(i))
				}
				b.ReportMetric(float64(liveHeap()-before)/benchmarked, "B/object")
				runtime.KeepAlive(x)
			}
		})
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
	var known, changed, others []objects.Version
	for i := range benchmarked {
		x.Enter(usual(i))
		e := usual(i)
		known = append(known, e)
		e.ResourceVersion = "1" + e.ResourceVersion
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

// BenchmarkIndexGrows enters -objects new objects. It reports the longest call, which holds the lock, and the live heap
// per object. Other processes interrupt calls, too: BenchmarkIndexSplit measures the longest call without them.
func BenchmarkIndexGrows(b *testing.B) {
	var longest time.Duration
	var heap uint64
	for b.Loop() {
		before := liveHeap()
		x := New(nil)
		for i := range *scale {
			e := usual(i)
			began := time.Now()
			x.Enter(e)
			longest = max(longest, time.Since(began))
		}
		heap = liveHeap() - before
		runtime.KeepAlive(x)
	}
	b.ReportMetric(longest.Seconds()*1000, "ms/longest")
	b.ReportMetric(float64(heap)/float64(*scale), "B/object")
}

// BenchmarkIndexSplit splits a shard that is twice as large as the average one before it is split.
func BenchmarkIndexSplit(b *testing.B) {
	x := newTable(limits{shard: 1 << 30})
	for i := range 2 * usualLimits.shard {
		x.set(usual(i))
	}
	whole := x.shards[0]
	for b.Loop() {
		x.shards = []*shard{whole}
		x.split()
	}
}

// BenchmarkIndexEndList ends an empty list when -objects are known. It reports the longest time between two deletions,
// and how far the live heap was ever beyond the one before the list.
func BenchmarkIndexEndList(b *testing.B) {
	var longest time.Duration
	var most uint64
	for b.Loop() {
		b.StopTimer()
		x := New(nil)
		for i := range *scale {
			x.Enter(usual(i))
		}
		before := liveHeap()
		b.StartTimer()
		x.BeginList()
		count, last := 0, time.Now()
		x.EndList(func(Change) error {
			longest = max(longest, time.Since(last))
			if count++; count%(*scale/20) == 1 {
				most = max(most, liveHeap())
			}
			last = time.Now()
			return nil
		})
		if most -= min(most, before); count != *scale {
			b.Fatalf("%d deletions, want %d", count, *scale)
		}
	}
	b.ReportMetric(longest.Seconds()*1000, "ms/longest")
	b.ReportMetric(float64(most)/(1<<20), "MiB/peak")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N**scale), "ns/object")
}
