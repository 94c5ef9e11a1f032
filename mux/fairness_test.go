package mux_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// TestFairness counts how many events of others are told between when a quiet
// source tells one and when the loop is given it: one of each that has anything.
func TestFairness(t *testing.T) {
	for _, latest := range []bool{false, true} {
		for _, busy := range []int{1, 7, 63} {
			synctest.Test(t, func(t *testing.T) {
				quiet := make(chan struct{})
				sources := []mux.Source{&scripted{key: "quiet", play: func(ctx context.Context, put func(stream.Event) bool) error {
					for i := 0; ; i++ {
						select {
						case <-quiet:
						case <-ctx.Done():
							return nil
						}
						put(modified("x", fmt.Sprint(i)))
					}
				}}}
				for i := range busy { // they always have something
					var events []stream.Event
					for n := range 1000 {
						events = append(events, modified(fmt.Sprint("o", n), "1"))
					}
					sources = append(sources, telling(fmt.Sprint(i), events...))
				}
				m := newMux(t, &mux.Options{Latest: latest}, sources...)
				n, between, worst, heard := 0, -1, 0, 0
				turns := map[string]int{}
				for ev, err := range m.Events(anHour(t)) {
					if err != nil {
						t.Fatal(err)
					}
					turns[ev.Source]++
					if n++; n == 20*busy {
						clear(turns) // all of them have begun
					}
					switch {
					case ev.Source == "quiet":
						worst, between = max(worst, between), -1
						heard++
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
				if worst > busy || heard < 10 {
					t.Errorf("latest=%t: %d of %d busy ones came before the quiet one, which was heard %d times", latest, worst, busy, heard)
				}
				for key, turns := range turns {
					if key != "quiet" && (turns < 60 || turns > 81) {
						t.Errorf("latest=%t: of %d busy ones %s had %d turns of %d", latest, busy, key, turns, 80)
					}
				}
			})
		}
	}
}

// TestBlockIsBounded looks at what waits while the loop is busy.
func TestBlockIsBounded(t *testing.T) {
	size := int64(0)
	synctest.Test(t, func(t *testing.T) {
		m := newMux(t, nil, telling("a", synced(), modified("x", "1")))
		for range m.Events(anHour(t)) {
			synctest.Wait()
			if size = m.Status().Bytes; size < 150 || size > 300 {
				t.Errorf("an event of some 230 bytes is taken for %d", size)
			}
			break
		}
	})
	tests := []struct {
		options mux.Options
		own     mux.SourceOptions
		want    int // that wait, of three sources, of each one more than fits
		why     string
	}{
		{mux.Options{}, mux.SourceOptions{}, 3*100 + 3, "the default"},
		{mux.Options{Events: 7}, mux.SourceOptions{}, 3*7 + 3, "as asked for"},
		{mux.Options{Events: 7}, mux.SourceOptions{Events: 2}, 3*2 + 3, "by each itself"},
		{mux.Options{Bytes: 10 * size}, mux.SourceOptions{}, 10 + 3, "bytes of all together"},
		{mux.Options{Bytes: 1}, mux.SourceOptions{}, 3 + 3, "one of each in any case"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			m := newMux(t, &tt.options)
			for _, key := range []string{"a", "b", "c"} {
				add(t, m, many(key), &tt.own)
			}
			n, each := 0, map[string]int{}
			for ev, err := range m.Events(anHour(t)) {
				if err != nil {
					t.Fatal(err)
				}
				each[ev.Source]++
				if want := fmt.Sprint(each[ev.Source] - 1); ev.ResourceVersion != want {
					t.Fatalf("%s: told %s of %s, want %s", tt.why, ev.ResourceVersion, ev.Source, want)
				}
				synctest.Wait()
				if n++; n == 1 {
					if st := m.Status(); st.Queued > tt.want+1 || st.Queued < tt.want-1 { // one has been told; they are not all of one size
						t.Errorf("%s: %d wait, want about %d", tt.why, st.Queued, tt.want)
					}
				}
				if n == 500 {
					break
				}
			}
			for key, told := range each {
				if told < 100 {
					t.Errorf("%s: %s has starved: %v", tt.why, key, each)
				}
			}
		})
	}
}
