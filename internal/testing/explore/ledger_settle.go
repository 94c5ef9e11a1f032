package explore

import (
	"errors"
	"fmt"
	"maps"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/stream"
)

// status checks how many events are not acked, or wait for one.
func (c ledgerPromises) status() error {
	p := c.p
	want := 0
	for _, l := range p.run.lines {
		want += c.waiting(l)
	}
	if p.run.ended && p.err != nil {
		return nil
	}
	st := p.run.books.Session.Status()
	if st.Unacked != want {
		return fmt.Errorf("the Status has %d events that are not acked or wait, want %d", st.Unacked, want)
	}
	if (st.OldestUnacked != 0) != (want > 0) {
		return fmt.Errorf("the Status has OldestUnacked %v with %d events that are not acked", st.OldestUnacked, want)
	}
	return nil
}

// waiting counts the events of a line that are not acked, or that wait for an earlier one: within a snapshot whose
// beginning is acked, for one of the same object.
func (c ledgerPromises) waiting(l *ledgerLine) (n int) {
	p := c.p
	within, blocked := l.base.within, map[objects.ID]bool{}
	for _, e := range p.run.events {
		if e.line != l {
			continue
		}
		if within = within && e.at == ""; e.kind == "" {
			continue
		}
		if e.acked && within && !blocked[e.id] {
			continue
		}
		n++
		blocked[e.id] = e.isObject()
	}
	return n
}

// quiet checks that the Store has what was delivered, if all of it is acked and nothing is left to commit.
func (c ledgerPromises) quiet() error {
	p := c.p
	if r := &p.run; p.past.marked && !r.failed && !r.committing && !r.inherited && !r.books.Exposed() {
		return errors.New("the last commit has all that was delivered, and the Store is marked")
	}
	if len(p.run.events) > 0 || p.run.books.Session.Status().Uncommitted {
		return nil
	}
	unclean := p.past.saved != nil && p.past.saved.Position.Unclean
	for _, l := range p.run.lines {
		if l.snapshot.quiet || l.wait.waits {
			return nil
		}
		unclean = unclean && !l.unclean
	}
	if p.run.ended && unclean {
		return errors.New("the run has ended, all is acked and committed, and the Store is Unclean")
	}
	return p.promises().stored()
}

// stored checks that the Store has what was delivered.
func (c ledgerPromises) stored() error {
	p := c.p
	var saved checkpoint.Position
	if p.past.saved != nil {
		saved = p.past.saved.Position
	}
	want := map[objects.ID]string{}
	for _, l := range p.run.lines {
		if got := saved.ResourceVersions[l.namespace]; got != l.version {
			return fmt.Errorf("all is acked and committed, and the Store is at %q of %s, want %q",
				got, l.name(), l.version)
		}
		for _, v := range l.index.All() {
			want[v.ID] = v.ResourceVersion
		}
	}
	got := map[objects.ID]string{}
	for _, o := range saved.Objects {
		id := ledgerID(o)
		if _, ok := want[id]; ok || !p.past.ahead.has(id) { // else it is about to be delivered
			got[id] = o.ResourceVersion
		}
	}
	if !p.setup.positionsOnly && !maps.Equal(got, want) {
		return fmt.Errorf("all is acked and committed, and the Store has %v, want %v", got, want)
	}
	return nil
}

// ledgerCalm drives a program that nothing happens to any more: no commit fails.
type ledgerCalm struct{ p *ledgerProgram }

// Settle returns an error unless everything can be delivered, acked and committed, so that the next run delivers
// nothing again.
func (s *ledgerState) Settle() error {
	p := s.use()
	p.checks = true
	err := ledgerCalm{p}.settle()
	if p.err != nil {
		err = p.err
	}
	return s.describe(p, err)
}

func (c ledgerCalm) settle() error {
	p := c.p
	if p.run.ended {
		if p.run.committing {
			p.answer(true, true)
		}
		p.succeed(false)
	}
	c.finish()
	if p.run.books.Session.Status().Uncommitted {
		return errors.New("all is acked and committed, and Status says that a commit is due or under way")
	}
	if p.past.marked {
		return errors.New("all is acked and committed, and the Store is marked")
	}
	if err := errors.Join(p.promises().stored(), p.promises().worlds(), p.promises().committed()); err != nil {
		return err
	}
	for _, lost := range []bool{false, true} {
		p.kill(false, lost)
		ahead := p.past.ahead
		c.deliver()
		for _, e := range p.run.events {
			if e.isObject() && !(lost && p.setup.positionsOnly) && !ahead.has(e.id) {
				return fmt.Errorf("all is acked and committed, and the next run delivers %s", e)
			}
			if e.kind == stream.Gap && !lost {
				return fmt.Errorf("all is acked and committed, and the next run begins with %s", e)
			}
		}
		c.finish()
	}
	p.run.ended = true
	p.run.books.Session.End()
	c.commit()
	if p.past.saved.Position.Unclean {
		return errors.New("all is acked and committed, the run has ended, and the Store is Unclean")
	}
	return p.promises().stored()
}

// finish delivers, acks and commits everything.
func (c ledgerCalm) finish() {
	p := c.p
	c.deliver()
	for len(p.run.events) > 0 {
		p.ack(p.run.events[0])
	}
	c.commit()
}

func (c ledgerCalm) commit() {
	p := c.p
	for p.run.committing || p.take() {
		p.answer(true, true)
	}
}

// committed checks that the Store has exactly the objects on the server.
func (c ledgerPromises) committed() error {
	p := c.p
	if p.setup.positionsOnly {
		return nil
	}
	got := map[objects.ID]string{}
	for _, o := range p.past.saved.Position.Objects {
		// Else it was written ahead, and then a kill or another list came before its delivery.
		if p.past.server.world.has(ledgerID(o)) || !p.past.ahead.has(ledgerID(o)) {
			got[ledgerID(o)] = o.ResourceVersion
		}
	}
	want := map[objects.ID]string{}
	for _, o := range p.past.server.world {
		if _, ok := got[o.id]; ok || !p.past.saved.Position.Partial {
			want[o.id] = o.version
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("all is acked and committed, and the Store has %v, the server %v", got, want)
	}
	return nil
}
