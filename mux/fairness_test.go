package mux_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// The test counts the events of other sources between the moment when a quiet source has an event and its delivery: at
// most one of each.
func TestQuietSourceWaitsForOneOfEach(t *testing.T) {
	for _, overflow := range []mux.Overflow{mux.Block, mux.Latest} {
		for _, busy := range []int{1, 7, 63} {
			synctest.Test(t, func(t *testing.T) {
				quiet := make(chan struct{})
				sources := []mux.Source{&scripted{key: "quiet",
					run: func(ctx context.Context, put func(stream.Event) bool) error {
						for i := 0; ; i++ {
							select {
							case <-quiet:
							case <-ctx.Done():
								return nil
							}
							put(modified("x", fmt.Sprint(i)))
						}
					}}}
				for i := range busy { // they always have events
					var events []stream.Event
					for n := range 1000 {
						events = append(events, modified(fmt.Sprint("o", n), "1"))
					}
					sources = append(sources, emitting(fmt.Sprint(i), events...))
				}
				m := newMux(t, &mux.Options{Overflow: overflow}, sources...)
				n, between, worst, delivered := 0, -1, 0, 0
				turns := map[string]int{}
				for ev, err := range m.Events(anHour(t)) {
					if err != nil {
						t.Fatal(err)
					}
					turns[mux.SourceOf(ev)]++
					if n++; n == 20*busy {
						clear(turns) // all of them have begun
					}
					switch {
					case mux.SourceOf(ev) == "quiet":
						worst, between = max(worst, between), -1
						delivered++
					case between >= 0:
						between++
					}
					if between < 0 && n%(2*busy+3) == 0 {
						quiet <- struct{}{}
						between = 0
					}
					synctest.Wait()
					if n == 100*busy {
						break
					}
				}
				if worst > busy || delivered < 10 {
					t.Errorf("%s: %d of %d busy ones came before the quiet one, which delivered %d times",
						overflow, worst, busy, delivered)
				}
				for key, turns := range turns {
					if key != "quiet" && (turns < 60 || turns > 81) {
						t.Errorf("%s: of %d busy ones %s had %d turns of %d", overflow, busy, key, turns, 80)
					}
				}
			})
		}
	}
}

// Objects of many small maps take 50 times as much memory as their JSON. What waits is bounded by memory.
func TestBufferBytesAreMemory(t *testing.T) {
	dense := func(rv string) stream.Event {
		ev := modified("dense", rv)
		list := make([]any, 10_000)
		for i := range list {
			list[i] = map[string]any{"": map[string]any{}}
		}
		ev.Object.Object["spec"] = list // 80 KB of JSON, 4 MB in memory
		return ev
	}
	synctest.Test(t, func(t *testing.T) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := newMux(t, &mux.Options{BufferBytes: 32 << 20}, &scripted{key: "a",
			run: func(_ context.Context, put func(stream.Event) bool) error {
				for n := 1; put(dense(strconv.Itoa(n))); n++ {
				}
				return nil
			}})
		for range m.Events(anHour(t)) {
			synctest.Wait()
			runtime.GC()
			runtime.ReadMemStats(&after)
			break
		}
		// The events that wait, one that is blocked, one that the loop has, and one in the making.
		if used := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20; used < 10 || used > 55 {
			t.Errorf("BufferBytes is 32 MiB, and the events take %d MiB", used)
		}
	})
}

// What waits while the loop is busy is bounded by number and size.
func TestBlockIsBounded(t *testing.T) {
	size := int64(0)
	synctest.Test(t, func(t *testing.T) {
		m := newMux(t, nil, emitting("a", synced(), modified("x", "1")))
		for range m.Events(anHour(t)) {
			synctest.Wait()
			// Three maps of 336 bytes, a few strings, and the event itself.
			if size = m.Status().Bytes; size < 1100 || size > 1600 {
				t.Errorf("an event of about 1400 bytes in memory counts as %d", size)
			}
			break
		}
	})
	tests := []struct {
		options mux.Options
		own     mux.SourceOptions
		want    int // events that wait, of three sources, each with one more than fits
		more    int // if the first sources have filled the room before the others have one that waits
		why     string
	}{
		{mux.Options{}, mux.SourceOptions{}, 3*100 + 3, 0, "100 by default"},
		{mux.Options{BufferEvents: 7}, mux.SourceOptions{}, 3*7 + 3, 0, "Options.BufferEvents"},
		{mux.Options{BufferEvents: 7}, mux.SourceOptions{BufferEvents: 2}, 3*2 + 3, 0, "SourceOptions.BufferEvents"},
		{mux.Options{Overflow: mux.Latest}, mux.SourceOptions{Overflow: mux.Block, BufferEvents: 5}, 3*5 + 3, 0,
			"Block overrides Latest"},
		{mux.Options{BufferBytes: 10 * size}, mux.SourceOptions{}, 10 + 3, 2, "Bytes of all sources together"},
		{mux.Options{BufferBytes: 1}, mux.SourceOptions{}, 3 + 3, 0, "one event of each source in any case"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			m := newMux(t, &tt.options)
			for _, key := range []string{"a", "b", "c"} {
				add(t, m, many(key), &tt.own)
			}
			for range 2 { // runs
				n, each := 0, map[string]int{}
				for ev, err := range m.Events(anHour(t)) {
					if err != nil {
						t.Fatal(err)
					}
					each[mux.SourceOf(ev)]++
					if want := fmt.Sprint(each[mux.SourceOf(ev)] - 1); ev.ResourceVersion != want {
						t.Fatalf("%s: got %s of %s, want %s", tt.why, ev.ResourceVersion, mux.SourceOf(ev), want)
					}
					synctest.Wait()
					if n++; n == 1 {
						if st := m.Status(); st.Queued > tt.want+tt.more+1 ||
							st.Queued < tt.want-1 { // one has been delivered, and sizes differ
							t.Errorf("%s: %d wait, want about %d", tt.why, st.Queued, tt.want)
						}
					}
					if n == 500 {
						break
					}
				}
				for key, n := range each {
					if n < 100 {
						t.Errorf("%s: %s has starved: %v", tt.why, key, each)
					}
				}
			}
		})
	}
}
