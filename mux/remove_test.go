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

// many tells without end.
func many(key string) *scripted {
	return &scripted{key: key, play: func(_ context.Context, put func(stream.Event) bool) error {
		for i := 0; put(modified("x", fmt.Sprint(i))); i++ {
		}
		return nil
	}}
}

// TestRemoveInBody removes the source whose event is being handled, while it waits
// for room.
func TestRemoveInBody(t *testing.T) {
	for _, latest := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a, b := telling("a", modified("x", "1"), modified("y", "1"), modified("z", "1"), modified("w", "1")), telling("b", modified("x", "1"), modified("y", "2"))
			m := newMux(t, &mux.Options{Events: 1, Latest: latest}, a, b)
			removed, after := false, 0
			for ev, err := range m.Events(anHour(t)) {
				if err != nil {
					t.Fatal(err)
				}
				if removed && ev.Source == "a" {
					t.Fatal("it comes after Remove")
				}
				if ev.Source == "a" {
					synctest.Wait()
					if !m.Remove("a") || m.Remove("a") || a.isOpen() {
						t.Error("it is not removed")
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

func TestAddAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMux(t, nil, telling("a", modified("old", "1"), modified("old", "2")))
		n := 0
		for ev, err := range m.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			switch n++; {
			case n == 1:
				synctest.Wait()
				if err := m.Add(telling("a"), nil); err == nil {
					t.Error("there is one already")
				}
				m.Remove("a")
				add(t, m, telling("a", modified("new", "1")), &mux.SourceOptions{Latest: true})
			case ev.Object.GetName() != "new":
				t.Errorf("told %s", ev.Object.GetName())
			default:
				m.Stop()
			}
		}
		// And between two ranges.
		if !m.Remove("a") || m.Add(telling("b", synced()), nil) != nil {
			t.Error("it can't be exchanged")
		}
		for ev := range m.Events(anHour(t)) {
			if ev.Source != "b" {
				t.Errorf("an event of %q", ev.Source)
			}
			break
		}
	})
}

// TestSuccessorWaits: while a source takes its time to end, another one of its key
// waits, and so does who removes it a second time.
func TestSuccessorWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		open := 0
		slow := func() *scripted {
			return &scripted{key: "a", play: func(ctx context.Context, put func(stream.Event) bool) error {
				mu.Lock()
				if open++; open > 1 {
					t.Error("two of one key")
				}
				mu.Unlock()
				put(synced())
				<-ctx.Done()
				time.Sleep(time.Minute) // not soon
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
