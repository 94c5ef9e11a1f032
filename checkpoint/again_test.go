package checkpoint_test

import (
	"testing"
	"testing/synctest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// a left the selector and came again, twice: what was told the second time is not
// acked when what was told the first time is; the third time is undone.
func TestUndoTwice(t *testing.T) {
	for _, undo := range []bool{false, true} {
		events := []string{"+a@3", "-a@4", "+a@5", "-a@6"}
		if undo {
			events = append(events, "+a@7", "-a@8")
		}
		version, objects, _ := kept(t, events, func(m map[string]*checkpoint.Mark) {
			if undo {
				m["-a@8"].Undo(m["+a@7"])
			}
			m["+a@3"].Ack()
			m["-a@4"].Ack()
		})
		if objects["a"] == "" {
			t.Errorf("undo %v: at %s, and a, which has been told @5, is not kept: its end is never told", undo, version)
		}
	}
}

// The end of an earlier run's ghost is acked while the object, which is back, is
// being written ahead.
func TestEndOfAnEarlierOneWhileItComesBack(t *testing.T) {
	for _, early := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := checkpoint.NewMemory()
			at := func(v string) checkpoint.Object {
				return checkpoint.Object{Name: "a", UID: "a", ResourceVersion: v}
			}
			begin := func() (*checkpoint.Tracker, *checkpoint.Session, *checkpoint.Progress) {
				tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
				if err != nil {
					t.Fatal(err)
				}
				s, err := tracker.Begin(t.Context(), "k", checkpoint.Identity{Resource: "widgets", Objects: true})
				if err != nil {
					t.Fatal(err)
				}
				return tracker, s, s.Progress("")
			}
			tracker, s, p := begin()
			p.Mark("1", false).Ack()
			_ = p.Ahead(t.Context(), []checkpoint.Object{at("2")})
			p.Note(checkpoint.Change{Object: at("2")})
			p.Mark("2", false) // killed
			s.End()
			tracker.Close()

			tracker, s, p = begin()
			p.Pass("1", false)
			ghost := at("2")
			ghost.Unacked = true
			p.Note(checkpoint.Change{Object: ghost, Gone: true})
			gone := p.Mark("3", false)
			if early {
				_ = p.Ahead(t.Context(), []checkpoint.Object{at("4")})
				gone.Ack()
			} else {
				gone.Ack()
				_ = p.Ahead(t.Context(), []checkpoint.Object{at("4")})
			}
			p.Note(checkpoint.Change{Object: at("4")})
			p.Mark("4", false) // told, perhaps handled, not acked; killed
			s.End()
			tracker.Close()
			c, err := store.Load(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Position.Objects) == 0 {
				t.Errorf("early %v: nothing is kept of a@4, which has been told", early)
			}
		})
	}
}
