package checkpoint

import (
	"fmt"
	"testing"
	"testing/synctest"
)

// TestCoverIsBounded: an object that goes and comes back any number of times while it
// is not told takes no memory for it.
func TestCoverIsBounded(t *testing.T) {
	for _, listed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tracker, err := NewTracker(NewMemory(), &Options{Cluster: Cluster{UID: "test"}})
			if err != nil {
				t.Fatal(err)
			}
			defer tracker.Close()
			s, err := tracker.Begin(t.Context(), "k", Identity{Resource: "widgets", Objects: true})
			if err != nil {
				t.Fatal(err)
			}
			p, rv := s.Progress(""), 0
			at := func() string {
				if rv++; listed && rv > 3 {
					return ""
				}
				return fmt.Sprint(rv)
			}
			added := func(name string) *Mark {
				version := at()
				o := Object{Name: name, UID: "u", ResourceVersion: fmt.Sprint(rv)}
				if err := p.Ahead(t.Context(), []Object{o}); err != nil {
					t.Fatal(err)
				}
				p.Note(Change{Object: o})
				return p.Mark(version, false)
			}
			p.Mark(at(), false).Ack()
			added("a").Ack()
			other := added("b")
			var last *Mark
			for range 1000 {
				p.Note(Change{Object: Object{Name: "a", UID: "u"}, Gone: true})
				gone := p.Mark(at(), false)
				gone.Cover(last)
				last = added("a")
				last.CoverNew(gone)
			}
			marks, prior := 0, 0
			for m := p.first; m != nil; m = m.next {
				marks++
			}
			for _, of := range s.ahead.prior {
				prior += len(of)
			}
			if marks > 10 || prior > 10 {
				t.Errorf("listed %v: %d marks, and %d that were told before, for two events", listed, marks, prior)
			}
			other.Ack()
			last.Ack()
			if p.unacked != 0 || len(s.ahead.by) > 0 || len(s.ahead.prior) > 0 {
				t.Errorf("listed %v: all is acked, and %d wait, with %v and %v ahead", listed, p.unacked, s.ahead.by, s.ahead.prior)
			}
			s.End()
		})
	}
}
