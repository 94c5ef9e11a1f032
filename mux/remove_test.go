package mux_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// many returns a source that delivers events without end.
func many(key string) *scripted {
	return &scripted{key: key, run: func(_ context.Context, put func(stream.Event) bool) error {
		for i := 0; put(modified("x", fmt.Sprint(i))); i++ {
		}
		return nil
	}}
}

// The loop body may remove the source whose event it handles, even while that waits for room.
func TestBodyMayRemoveTheSource(t *testing.T) {
	for _, overflow := range []mux.Overflow{mux.Block, mux.Latest} {
		synctest.Test(t, func(t *testing.T) {
			a, b := emitting("a", modified("x", "1"), modified("y", "1"), modified("z", "1"),
				modified("w", "1")), emitting("b", modified("x", "1"), modified("y", "2"))
			m := newMux(t, &mux.Options{BufferEvents: 1, Overflow: overflow}, a, b)
			removed, after := false, 0
			for ev, err := range m.Events(anHour(t)) {
				if err != nil {
					t.Fatal(err)
				}
				if removed && mux.SourceOf(ev) == "a" {
					t.Fatal("an event after Remove")
				}
				if mux.SourceOf(ev) == "a" {
					synctest.Wait()
					if !m.Remove("a") || m.Remove("a") || a.isOpen() {
						t.Error("the source is not removed, or removed twice")
					}
					removed = true
				}
				if st := m.Status(); removed && len(st.Sources) != 1 {
					t.Errorf("the status is %+v", st)
				}
				if removed {
					synctest.Wait()
					if after++; m.Status().Queued == 0 {
						break
					}
				}
			}
		})
	}
}

// A key can be used again during a run and between runs.
func TestRemovedKeyCanBeUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMux(t, nil, emitting("a", modified("old", "1"), modified("old", "2")))
		n := 0
		for ev, err := range m.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			switch n++; {
			case n == 1:
				synctest.Wait()
				if err := m.Add(emitting("a"), nil); err == nil {
					t.Error("a second source with the key was added")
				}
				m.Remove("a")
				add(t, m, emitting("a", modified("new", "1")), &mux.SourceOptions{Overflow: mux.Latest})
			case ev.Object.GetName() != "new":
				t.Errorf("an event of %s", ev.Object.GetName())
			default:
				m.Stop()
			}
		}
		if !m.Remove("a") || m.Add(emitting("b", synced()), nil) != nil {
			t.Error("the source can't be replaced between runs")
		}
		for ev := range m.Events(anHour(t)) {
			if mux.SourceOf(ev) != "b" {
				t.Errorf("an event of %q", mux.SourceOf(ev))
			}
			break
		}
	})
}

// While a source is ending, a new source with its key waits, and so does a second Remove.
func TestSuccessorWaitsForTheEndingSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		open := 0
		slow := func() *scripted {
			return &scripted{key: "a", run: func(ctx context.Context, put func(stream.Event) bool) error {
				mu.Lock()
				if open++; open > 1 {
					t.Error("two sources with one key run")
				}
				mu.Unlock()
				put(synced())
				<-ctx.Done()
				time.Sleep(time.Minute) // ending takes time
				mu.Lock()
				defer mu.Unlock()
				open--
				return nil
			}}
		}
		m := newMux(t, nil, slow())
		begun := time.Now()
		var others sync.WaitGroup
		n := 0
		for range m.Events(anHour(t)) {
			if n++; n == 3 {
				break
			}
			others.Go(func() { m.Remove("a") })
			synctest.Wait()
			if m.Remove("a") || time.Since(begun) != time.Duration(n)*time.Minute {
				t.Errorf("removed again after %v", time.Since(begun))
			}
			add(t, m, slow(), nil)
			others.Go(func() {
				m.Remove("a")
				if err := m.Add(slow(), nil); n < 3 && err != nil {
					t.Error(err)
				}
			})
			others.Wait()
			begun = begun.Add(time.Since(begun) - time.Duration(n)*time.Minute)
		}
		others.Wait()
	})
}
