package mux_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// endless delivers the same events as fast as they are taken, until all sources together have delivered a number.
type endless struct {
	key    string
	events []stream.Event
	left   *atomic.Int64
}

func (e endless) Key() string { return e.key }

func (e endless) Events(context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for i := 0; e.left.Add(-1) >= 0; i++ {
			if !yield(e.events[i%len(e.events)], nil) {
				return
			}
		}
	}
}

// BenchmarkMerge measures the cost of merging one event.
func BenchmarkMerge(b *testing.B) {
	for _, latest := range []bool{false, true} {
		for _, n := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("latest=%t/sources=%d", latest, n), func(b *testing.B) {
				var left atomic.Int64
				left.Store(int64(b.N))
				var sources []mux.Source
				for i := range n {
					e := endless{key: fmt.Sprint(i), left: &left}
					for j := range 1000 {
						e.events = append(e.events,
							stream.Event{Type: stream.Modified, Object: object(fmt.Sprint(j), "u", "1")})
					}
					sources = append(sources, e)
				}
				m, err := mux.New(&mux.Options{Latest: latest}, sources...)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				b.ResetTimer()
				delivered := 0
				for ev, err := range m.Events(b.Context()) {
					if err != nil {
						b.Fatal(err)
					}
					delivered += 1 + ev.Coalesced
				}
				if delivered != b.N {
					b.Fatalf("%d of %d events were delivered", delivered, b.N)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
