package relay_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
)

// TestPublishes: the log has what a Stream delivers, and a restart goes on where the last run ended.
func TestPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, planets)
		defer w.srv.Close()
		w.srv.Put(widgets, "ns", "a", "spec.x=1")
		w.srv.Put(planets, "", "mars")
		w.start("one")
		w.converged()
		w.srv.Put(widgets, "ns", "a", "spec.x=2")
		w.srv.Put(widgets, "ns", "b")
		w.converged()
		w.stop("one")
		w.srv.Put(widgets, "ns", "c")
		if _, err := w.srv.Delete(widgets, "ns", "a"); err != nil {
			t.Fatal(err)
		}
		w.start("two")
		w.converged()
		w.stop("two")
		var got []string
		for _, m := range w.messages() {
			if m.Unit.Resource == "widgets" {
				got = append(got, text(m))
			}
		}
		want := []string{
			"added widgets ns/a@2", "synced widgets 3", "modified widgets ns/a@4", "added widgets ns/b@5",
			"synced widgets 5", "added widgets ns/c@6", "deleted widgets ns/a@7",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error("-want +got:\n" + diff)
		}
		w.judge()
	})
}

// TestUnitsMove: a new replica gets a share of the units, without a repetition, a gap or a wait for a lease.
func TestUnitsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets, gadgets, planets)
		defer w.srv.Close()
		for _, name := range []string{"a", "b", "c"} {
			w.srv.Put(widgets, "ns", name)
			w.srv.Put(gadgets, "ns", name)
			w.srv.Put(planets, "", name)
		}
		w.start("one")
		w.converged()
		began := time.Now()
		for _, id := range []string{"two", "three", "four"} {
			w.start(id)
		}
		w.eventually("the units", func() string {
			owners := map[string]int{}
			for _, e := range w.positions() {
				owners[e.Position.Owner]++
			}
			if len(owners) < 2 || owners[""] > 0 {
				return "are not shared"
			}
			return ""
		})
		if took := time.Since(began); took >= lease {
			t.Errorf("it took %v to share the units, want less than a lease", took)
		}
		w.srv.Put(widgets, "ns", "d")
		w.srv.Put(gadgets, "ns", "d")
		w.srv.Put(planets, "", "d")
		w.converged()
		w.stopAll()
		w.judge()
		for _, m := range w.messages() {
			if m.Type == engine.Gap {
				t.Errorf("a gap: %s", text(m))
			}
		}
	})
}

// TestPausedOwner: a replica that stops without a word loses its units after the lease, and when it wakes up it
// publishes nothing of them.
func TestPausedOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, widgets)
		defer w.srv.Close()
		w.srv.Put(widgets, "ns", "a")
		one := w.start("one")
		w.converged()
		one.link.pause()
		w.srv.Put(widgets, "ns", "b") // received by the paused one, too
		began := time.Now()
		w.start("two")
		w.converged()
		if took := time.Since(began); took < lease/2 || took > 2*lease {
			t.Errorf("it took %v to take over, want at most two leases and not less than half of one", took)
		}
		one.link.resume()
		w.srv.Put(widgets, "ns", "c")
		w.converged()
		time.Sleep(3 * lease)
		w.converged()
		w.stopAll()
		w.judge()
	})
}
