package acks

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
)

// TestLedgerLosesNothingWhereverItIsKilled drives ledgers without a Tracker: events are acked in random order, commits
// fail before or after the Store has them, and the program is killed between any two steps. In the end what was
// delivered, what was acked, and what is committed add up to the objects on the server.
func TestLedgerLosesNothingWhereverItIsKilled(t *testing.T) {
	seedtest.Default(1000).Run(t, func(t *testing.T, n uint64) {
		p := &program{
			Rand: rand.New(rand.NewPCG(n, 3)), server: state{}, seen: state{}, handled: state{},
			order: map[objects.ID]int{}, risk: risk{now: map[objects.ID]bool{}, lost: map[objects.ID]bool{}},
		}
		for p.start(); p.IntN(60) > 0; {
			p.step()
		}
		p.calm = true
		for p.deliver() {
		}
		for len(p.delivered) > 0 {
			p.ack(0)
		}
		p.commit()
		for id := range p.risk.lost {
			if _, ok := p.server[id]; !ok {
				delete(p.seen, id)
				delete(p.handled, id)
			}
		}
		p.start()
		for what, got := range map[string]state{"delivered": p.seen, "acked": p.handled, "committed": p.known} {
			if diff := cmp.Diff(p.server, got); diff != "" {
				t.Errorf("what was %s: -want +got:\n%s", what, diff)
			}
		}
		if p.deliver() {
			t.Error("everything was acked, but the next run delivers more")
		}
	})
}

// state has the versions of objects.
type state map[objects.ID]string

func (s state) apply(c Change) {
	switch {
	case c.Gone:
		delete(s, c.ID)
	case c.ID != objects.ID{}:
		s[c.ID] = c.ResourceVersion
	}
}

// program watches a few objects, and is killed from time to time.
type program struct {
	*rand.Rand
	history []Change // of the server; version i+1 is that of number i
	server  state
	seen    state              // according to all delivered events
	handled state              // according to the acked events
	order   map[objects.ID]int // the number of the last of these
	risk    risk
	store   checkpoint.Memory
	calm    bool // nothing fails any more
	run
}

// risk is which objects were delivered although no commit has their entry: the commit before it failed.
type risk struct {
	failed    bool // the last commit
	now, lost map[objects.ID]bool
}

// run is one run of a program.
type run struct {
	progress  Progress
	known     state
	at        int // the number of the next live event
	snapshot  []func()
	delivered []delivery // not acked
}

// delivery is an event. Its Change is zero for GAP and SYNCED.
type delivery struct {
	Change
	number int
	mark   *Mark
}

// start starts the next run. The last one has been killed.
func (p *program) start() {
	maps.Copy(p.risk.lost, p.risk.now)
	clear(p.risk.now)
	l := newLedger("key", checkpoint.Identity{Resource: "widgets"}, rules{}, func(int) {})
	p.run = run{known: state{}}
	saved, _ := p.store.Load(context.Background(), "key")
	if saved != nil {
		l.resume(saved.Position, nil)
	}
	p.progress = Progress{ledger: l, line: l.line("")}
	if saved == nil {
		p.list()
		return
	}
	for _, o := range saved.Position.Objects {
		p.known[objects.ID{Namespace: o.Namespace, Name: o.Name, UID: o.UID}] = o.ResourceVersion
	}
	rv, _ := saved.Position.At("")
	p.at, _ = strconv.Atoi(rv)
	if rv == "" || !p.calm && p.IntN(4) == 0 { // or the history is lost
		p.gap(rv)
	}
}

func (p *program) step() {
	switch what := p.IntN(32); {
	case what < 8:
		p.write()
	case what < 18:
		p.deliver()
	case what < 26 && len(p.delivered) > 0:
		p.ack(p.IntN(len(p.delivered)))
	case what < 30:
		p.commit()
	case what < 31 && len(p.snapshot) == 0:
		p.gap(strconv.Itoa(p.at))
	case what == 31:
		p.start()
	}
}

// write changes an object on the server.
func (p *program) write() {
	c := Change{Version: objects.Version{ID: objects.ID{Name: string(rune('a' + p.IntN(3))), UID: "1"}}}
	_, exists := p.server[c.ID]
	c.Gone = exists && p.IntN(2) == 0
	p.history = append(p.history, c)
	p.history[len(p.history)-1].ResourceVersion = strconv.Itoa(len(p.history))
	p.server.apply(p.history[len(p.history)-1])
}

// deliver delivers the next event, if there is one.
func (p *program) deliver() (more bool) {
	if len(p.snapshot) > 0 {
		next := p.snapshot[0]
		p.snapshot = p.snapshot[1:]
		next()
		return true
	}
	if p.at == len(p.history) {
		return false
	}
	c := p.history[p.at]
	p.at++
	if !p.progress.ledger.live(p.progress.line) || !p.commit() {
		p.change(c, c.ResourceVersion)
	}
	return true
}

// gap delivers a GAP at a version.
func (p *program) gap(version string) {
	p.emit(Change{}, version)
	p.list()
}

// list begins a snapshot.
func (p *program) list() {
	p.progress.Pass("", false)
	p.at = len(p.history)
	changes := map[objects.ID]Change{}
	for id := range p.known {
		changes[id] = Change{Version: objects.Version{ID: id}, Gone: true}
	}
	for id, version := range p.server {
		changes[id] = Change{Version: objects.Version{ID: id, ResourceVersion: version}}
		if p.known[id] == version {
			delete(changes, id)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(changes), objects.ID.Compare) {
		p.snapshot = append(p.snapshot, func() { p.change(changes[id], "") })
	}
	version := strconv.Itoa(p.at)
	p.snapshot = append(p.snapshot, func() {
		if !p.progress.ledger.synced(p.progress.line, version, false) || !p.commit() {
			p.emit(Change{}, version)
		}
	})
}

// change delivers a change of an object, if the object exists or is known.
func (p *program) change(c Change, version string) {
	if _, known := p.known[c.ID]; !known && c.Gone {
		p.progress.Pass(version, false)
		return
	} else if !known {
		if p.progress.ledger.ahead(p.progress.line, []objects.ID{c.ID}) {
			if p.commit() {
				return
			}
			if p.risk.failed {
				p.risk.now[c.ID] = true
			}
		}
		delete(p.risk.lost, c.ID)
	}
	p.known.apply(c)
	p.progress.Note(c)
	p.emit(c, version)
}

func (p *program) emit(c Change, version string) {
	p.order[objects.ID{}]++ // counts all events
	p.delivered = append(p.delivered, delivery{c, p.order[objects.ID{}], p.progress.Mark(version, false)})
	p.seen.apply(c)
}

// ack acks one of the delivered events.
func (p *program) ack(i int) {
	d := p.delivered[i]
	p.delivered = slices.Delete(p.delivered, i, i+1)
	d.mark.Ack()
	if d.number > p.order[d.ID] {
		p.order[d.ID] = d.number
		p.handled.apply(d.Change)
	}
}

// commit commits what there is, and reports whether the program was killed meanwhile.
func (p *program) commit() (killed bool) {
	d, ok := p.progress.ledger.take()
	if !ok {
		return false
	}
	stored, answered := p.calm || p.IntN(4) > 0, p.calm || p.IntN(4) > 0
	for !p.calm && len(p.delivered) > 0 && p.IntN(2) == 0 {
		p.ack(p.IntN(len(p.delivered)))
	}
	p.risk.failed = !stored
	if stored {
		_ = p.store.Commit(context.Background(), []checkpoint.Delta{d})
		clear(p.risk.now)
	}
	switch {
	case stored && answered:
		p.progress.ledger.committed(d, nil)
	case p.IntN(2) == 0:
		p.progress.ledger.committed(d, errors.New("no answer"))
	default:
		p.start()
		return true
	}
	return false
}
