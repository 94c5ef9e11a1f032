package acks

import (
	"fmt"
	"testing"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// While an event waits for its ack, later changes without an event of their own take no more memory than one per
// object.
func TestChangesWithoutEventTakeBoundedMemory(t *testing.T) {
	var last *Mark
	tests := []struct {
		step func(t *testing.T, p *Progress, rv, next string)
		why  string
	}{
		{func(_ *testing.T, p *Progress, rv, _ string) {
			p.Pass(rv, false)
		}, "bookmarks have only a version"},
		{func(_ *testing.T, p *Progress, rv, next string) {
			p.Note(Change{Version: objects.Version{ID: objects.ID{Name: "a", UID: "a"}, ResourceVersion: rv}})
			m := p.Mark(rv, false)
			if last == nil {
				last = m
			}
			Coalesce(last, m)
			p.Pass(next, false)
		}, "coalesced events"},
		{func(t *testing.T, p *Progress, rv, next string) {
			o := objects.Version{ID: objects.ID{Name: "a", UID: "a"}, ResourceVersion: rv}
			if err := p.WriteAhead(t.Context(), []objects.ID{o.ID}); err != nil {
				t.Fatal(err)
			}
			p.Note(Change{Version: o})
			added := p.Mark(rv, false)
			p.Note(Change{Version: o, Gone: true})
			Cancel(added, p.Mark(next, false))
		}, "canceled events"},
		{func(_ *testing.T, p *Progress, rv, _ string) {
			Skip(p.Mark(rv, false))
		}, "skipped events"},
	}
	for _, tt := range tests {
		last = nil
		tracker, err := checkpoint.NewTracker(&checkpoint.Memory{},
			&checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Begin(t.Context(), tracker, "k", checkpoint.Identity{Resource: "widgets"}, false)
		if err != nil {
			t.Fatal(err)
		}
		p := s.Progress("")
		p.Mark("1", false).Ack()
		waiting := p.Mark("2", false)
		const rounds = 2000
		for i := range rounds {
			tt.step(t, p, fmt.Sprint(3+2*i), fmt.Sprint(4+2*i))
		}
		marks, changes := 0, 0
		for e := p.line.first; e != nil; e = e.next {
			marks++
			changes += len(e.changes)
		}
		if marks > 5 || changes > 5 || len(s.ledger.waiting.pending) > 5 ||
			len(s.ledger.next.changed) > 5 {
			t.Errorf("%s: after %d rounds %d marks wait, with %d changes of %d objects, %d for the next commit",
				tt.why, rounds, marks, changes, len(s.ledger.waiting.pending), len(s.ledger.next.changed))
		}
		waiting.Ack()
		last.Ack()
		if st := s.Status(); st.Unacked != 0 || p.line.low.version == "2" {
			t.Errorf("%s: everything is acked, but %d events wait, and the position is at %s", tt.why, st.Unacked,
				p.line.low.version)
		}
		if err := tracker.Close(); err != nil {
			t.Error(err)
		}
	}
}
