package configmap

import (
	"fmt"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// BenchmarkPack prints the size of an index, and how many such objects have room
// in a ConfigMap.
func BenchmarkPack(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 40_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			objects := usual(n)
			var index []byte
			c := &compressor{}
			for b.Loop() {
				index, _ = c.pack(objects, plenty)
			}
			each := float64(len(index)) / float64(n)
			b.ReportMetric(each, "B/object")
			b.ReportMetric(DefaultMaxBytes/each, "objects-fit")
		})
	}
}

// BenchmarkCommit is one change among 10,000 objects, with the server's part of it.
func BenchmarkCommit(b *testing.B) {
	s := open(b, newServer(b).Client(), "b")
	objects := usual(10_000)
	d := delta("k", "1")
	d.Put = objects
	commit(b, s, d)
	i := 0
	for b.Loop() {
		d.Put = []checkpoint.Object{objects[i*7919%len(objects)]}
		d.Put[0].ResourceVersion = fmt.Sprint(1_000_000_000 + i)
		commit(b, s, d)
		i++
	}
}

// BenchmarkCommitLeftOut is one change among objects that don't fit.
func BenchmarkCommitLeftOut(b *testing.B) {
	s := open(b, newServer(b).Client(), "b")
	objects := usual(100_000)
	d := delta("k", "1")
	d.Put = objects
	commit(b, s, d)
	if len(s.LeftOut()) != 1 {
		b.Fatal("they do fit")
	}
	for b.Loop() {
		d.Put = objects[:1]
		commit(b, s, d)
	}
}
