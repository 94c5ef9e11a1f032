package jetstream_test

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine/jetstream"
)

// BenchmarkObjects shows what it takes to read the objects of a unit of 500,000, which a relay does when it takes the
// unit: time, and bytes of heap for each object when it is highest. The server is another process.
func BenchmarkObjects(b *testing.B) {
	const count = 500_000
	dir := b.TempDir()
	startHost(b, dir)
	log, err := jetstream.Connect(b.Context(), jetstream.Options{Connection: jetstream.Connection{Dir: dir}})
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	p := engine.Part{Unit: pods}
	for i := range count {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		m := object(engine.Added, fmt.Sprint("ns", i%100), uid, fmt.Sprint(i))
		if p.Messages = append(p.Messages, m); len(p.Messages) < 900 && i < count-1 {
			continue
		}
		revisions, err := log.Publish(b.Context(), []engine.Part{p})
		if err != nil {
			b.Fatal(err)
		}
		p.Revision, p.Messages = revisions[0], nil
	}
	for b.Loop() {
		runtime.GC()
		before, stop, highest := heap(), make(chan struct{}), make(chan uint64)
		go func() {
			most := uint64(0)
			for {
				select {
				case <-time.After(5 * time.Millisecond):
					most = max(most, heap())
				case <-stop:
					highest <- most
					return
				}
			}
		}()
		all, err := log.Objects(b.Context(), pods, false)
		if err != nil || len(all) != count {
			b.Fatalf("%d objects, %v", len(all), err)
		}
		close(stop)
		b.ReportMetric(float64(<-highest-before)/count, "heap-bytes/object")
	}
}

// heap returns the bytes of heap in use.
func heap() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
