package mux_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// repeating delivers the same events again and again, as fast as they are taken.
type repeating struct {
	key    string
	events []stream.Event
	count  int
}

func (e repeating) Key() string { return e.key }

func (e repeating) Events(context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for i := range e.count {
			if !yield(e.events[i%len(e.events)], nil) {
				return
			}
		}
	}
}

// BenchmarkMerge measures the cost of merging one event.
func BenchmarkMerge(b *testing.B) {
	var events []stream.Event
	for i := range 1000 {
		events = append(events, stream.Event{Type: stream.Modified, Object: object(fmt.Sprint(i), "u", "1")})
	}
	for _, overflow := range []mux.Overflow{mux.Block, mux.Latest} {
		for _, n := range []int{1, 8, 1024} {
			b.Run(fmt.Sprintf("overflow=%s/sources=%d", overflow, n), func(b *testing.B) {
				var sources []mux.Source
				for i := range n {
					sources = append(sources, repeating{fmt.Sprint(i), events, (b.N + i) / n})
				}
				m, err := mux.New(&mux.Options{Overflow: overflow}, sources...)
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
					delivered += 1 + ev.Coalesced()
				}
				if delivered != b.N {
					b.Fatalf("%d of %d events were delivered", delivered, b.N)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
