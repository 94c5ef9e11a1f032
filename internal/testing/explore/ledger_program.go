package explore

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/objects"
	"github.com/gvrwatch/gvrwatch/stream"
)

// ledgerProgram is a program that keeps a checkpoint: the ledger of package acks, driven as package sequence does it,
// a Store, and a receiver that acks. The program can be killed between any two steps.
type ledgerProgram struct {
	setup  *ledgerSetup
	past   ledgerPast
	run    ledgerRun
	wordy  bool // log and script are written
	checks bool // the promises are checked
	err    error
	log    []string // what the last step has done
	script []string // of this run, in the words of the tests of package acks
}

// ledgerPast is what is left of a program when it is killed. It is copied by assignment.
type ledgerPast struct {
	spent  ledgerSpent
	server ledgerServer
	saved  *checkpoint.Checkpoint // what the Store has; nil for nothing. It is never changed.
	marked bool                   // the Store is: a run of another program finds an Unclean position
	// What the receiver has seen, and what it has acked, before the events of this run that are still kept.
	seen, handled ledgerWorld
	// exposed are the objects that were delivered without an entry in the Store, because a commit had failed and the
	// Store can't be marked, or before a GAP that says that the history is lost: their deletion may be missed.
	exposed ledgerWorld
	// ahead are the objects that were written ahead and not delivered since.
	ahead ledgerWorld
	// unmarked: the server has gone back in time, and the Store does not know. Nothing is written meanwhile, because
	// nobody could see the rewind once the versions have caught up.
	unmarked bool
}

// ledgerSpent is how often something has happened that a setup limits.
type ledgerSpent struct{ kills, failures, gaps, rewinds, merges, ends, bookmarks int8 }

// ledgerRun is one run of a program.
type ledgerRun struct {
	books      *acks.Books
	lines      []*ledgerLine
	events     []*ledgerEvent // of all lines: those that are not acked, and those after them
	number     int            // of the next event
	committing bool
	delta      checkpoint.Delta // that is being committed
	epoch      int8             // of the server at the last SYNCED that it has
	failed     bool             // the last commit
	marks      bool             // the Store can be marked
	inherited  bool             // the mark is of the program before
	ended      bool
}

// ledgerEvent is an event that was delivered, or a pass that waits behind one: it has no mark.
type ledgerEvent struct {
	line      *ledgerLine
	number    int
	kind      stream.Type
	id        objects.ID
	content   ledgerContent
	at        string // the version of the sequence after it
	inferred  bool
	acked     bool
	coalesced int
	reason    stream.GapReason
	hidden    bool // it is a SYNCED that waits for that of another namespace
	mark      *acks.Mark
}

var errLedger = errors.New("the Store did not answer")

// newLedgerPast returns what there is before the first run.
func newLedgerPast(u *ledgerSetup) *ledgerPast {
	var past ledgerPast
	for i := range u.exist {
		id, _ := past.server.named(u.namespaceOf(i), ledgerNames[i], u.recreated)
		past.server.write(id, false)
	}
	past.server.writes = 0
	if !u.resumes {
		return &past
	}
	past.seen, past.handled = past.server.world, past.server.world
	at := checkpoint.Position{ResourceVersions: map[string]string{}, Partial: u.positionsOnly}
	for _, n := range u.spaces() {
		at.ResourceVersions[n] = past.server.version()
	}
	for _, o := range past.server.world {
		if !u.positionsOnly {
			at.Objects = append(at.Objects, checkpoint.Object{
				Namespace: o.id.Namespace, Name: o.id.Name, UID: o.id.UID, ResourceVersion: o.version})
		}
	}
	past.saved = &checkpoint.Checkpoint{Identity: u.identity(), Position: at}
	return &past
}

// startLedger starts a program in a new process.
func startLedger(u *ledgerSetup, past ledgerPast, lost bool) *ledgerProgram {
	p := &ledgerProgram{setup: u, past: past}
	p.start(ledgerRun{inherited: past.marked}, lost)
	return p
}

// loaded returns what the Store answers.
func (p *ledgerPast) loaded(inherited bool) *checkpoint.Checkpoint {
	if !inherited {
		return p.saved
	}
	var c checkpoint.Checkpoint
	if p.saved != nil {
		c = *p.saved
	}
	c.Position.Unclean = true
	return &c
}

// says logs what a step does.
func (p *ledgerProgram) says(format string, args ...any) {
	if p.wordy {
		p.log = append(p.log, fmt.Sprintf(format, args...))
	}
}

// calls notes a call of the ledger.
func (p *ledgerProgram) calls(format string, args ...any) {
	if p.wordy {
		p.script = append(p.script, fmt.Sprintf(format, args...))
	}
}

func (p *ledgerProgram) breaks(promise error) {
	if p.err == nil {
		p.err = promise
	}
}

// start starts the next run: in the same program if the run before it has a ledger. Lost says that the server has no
// history any more.
func (p *ledgerProgram) start(before ledgerRun, lost bool) {
	var books *acks.Books
	saved := p.past.loaded(before.inherited)
	if u := p.setup; before.books != nil {
		books = before.books.Next(u.deferred, saved)
	} else {
		books = acks.NewBooks(u.identity(), u.noWriteAhead, u.positionsOnly, u.deferred, saved)
	}
	p.run = ledgerRun{books: books, marks: p.setup.marks, inherited: before.inherited}
	p.script = nil
	from := books.Session.Position()
	rewound := false
	if from == nil && p.setup.deferred {
		p.past.seen, p.past.handled = nil, nil
	}
	if from != nil {
		rewound = p.past.server.hasGoneBack(from)
	}
	for _, n := range p.setup.spaces() {
		l := newLedgerLine(p, n, from)
		l.resume(from, lost, rewound)
		if l.base.epoch = p.past.server.epoch; p.past.unmarked {
			l.base.epoch--
		}
		p.run.lines = append(p.run.lines, l)
	}
}

// kill ends the program, and starts the next one. Stored says whether the commit that is under way is stored.
func (p *ledgerProgram) kill(stored, lost bool) {
	if p.run.committing && stored {
		p.stored()
	}
	p.past = p.left()
	p.start(ledgerRun{inherited: p.past.marked}, lost)
}

// succeed begins the next run of the same program. What was delivered before can't be acked any more.
func (p *ledgerProgram) succeed(lost bool) {
	before := p.run
	p.past = p.left()
	p.start(before, lost)
	p.run.failed = before.failed // the Tracker is the same
	for _, e := range before.events {
		if !e.acked {
			e.mark.Ack()
		}
	}
}

// left returns what is left when the run ends.
func (p *ledgerProgram) left() ledgerPast {
	past := p.past
	past.handled, past.seen = p.acked(), p.delivered()
	return past
}

// isBlind reports whether a run that begins now could not notice that the server has gone back in time. It would need a
// version that was not acked.
func (p *ledgerPast) isBlind() bool {
	return p.unmarked && !(p.saved != nil && p.server.hasGoneBack(&p.saved.Position))
}

// acked returns what the receiver knows according to the events that it has acked, delivered what it may know.
func (p *ledgerProgram) acked() ledgerWorld {
	w := p.past.handled
	for _, e := range p.run.events {
		if e.acked {
			w = e.applyTo(w)
		}
	}
	return w
}

func (p *ledgerProgram) delivered() ledgerWorld { return p.withAll(p.past.seen) }

// withAll applies all events to a world.
func (p *ledgerProgram) withAll(w ledgerWorld) ledgerWorld {
	for _, e := range p.run.events {
		w = e.applyTo(w)
	}
	return w
}

func (e *ledgerEvent) isObject() bool {
	return e.kind == stream.Added || e.kind == stream.Modified || e.kind == stream.Deleted
}

func (e *ledgerEvent) applyTo(w ledgerWorld) ledgerWorld {
	switch {
	case e.kind == stream.Deleted:
		return w.without(e.id)
	case e.isObject():
		return w.with(e.id, e.content)
	}
	return w
}

// collapse drops the acked events that nothing waits for, in each line.
func (p *ledgerProgram) collapse() {
	kept := p.run.events[:0]
	for _, l := range p.run.lines {
		l.behind = false
	}
	for _, e := range p.run.events {
		if e.line.behind = e.line.behind || !e.acked; e.line.behind {
			kept = append(kept, e)
			continue
		}
		p.past.seen, p.past.handled = e.applyTo(p.past.seen), e.applyTo(p.past.handled)
		e.line.base.advance(e)
		e.line.wait.due = e.line.wait.due && e.kind != stream.Gap
	}
	p.run.events = kept
}

// ack acks an event.
func (p *ledgerProgram) ack(e *ledgerEvent) {
	p.says("ack %v", e)
	p.calls("ack %d", e.number)
	e.acked = true
	e.mark.Ack()
	p.collapse()
}

// take begins a commit, if there is anything to commit.
func (p *ledgerProgram) take() (ok bool) {
	d, ok := p.run.books.Take()
	if p.past.mark(&p.run); !ok {
		return false
	}
	p.run.committing, p.run.delta, p.run.epoch = true, d, p.run.lines[0].base.epoch
	p.says("commit of %v", ledgerDelta(d))
	p.calls("commit")
	if p.checks {
		p.promises().taken()
	}
	return true
}

// mark lets the Store have the mark, or takes it back.
func (p *ledgerPast) mark(r *ledgerRun) { p.marked = r.inherited || r.marks && r.books.Marked() }

// stored lets the Store have the delta.
func (p *ledgerProgram) stored() {
	p.past.saved = ledgerMerged(p.past.saved, p.run.delta)
	p.run.inherited = false
	p.past.mark(&p.run)
	p.past.unmarked = p.past.unmarked && !p.past.saved.Position.Rewound && p.run.epoch != p.past.server.epoch
	for _, o := range p.past.exposed {
		if p.past.entry(o.id) != nil && p.run.knows(o.id) {
			p.past.exposed = p.past.exposed.without(o.id)
		}
	}
}

// knows reports whether an object was delivered in this run, or is known from the Store.
func (r *ledgerRun) knows(id objects.ID) bool {
	return slices.ContainsFunc(r.lines, func(l *ledgerLine) bool { return l.index.Has(id) })
}

// answer ends a commit.
func (p *ledgerProgram) answer(stored, answered bool) {
	if stored {
		p.stored()
	}
	var err error
	if !answered {
		err = errLedger
	}
	p.run.committing, p.run.failed = false, err != nil
	p.run.books.Committed(p.run.delta, err)
	p.past.mark(&p.run)
	p.run.delta = checkpoint.Delta{}
	for _, l := range p.run.lines {
		if l.wait.waits && !p.run.committing {
			l.goOn(p)
		}
	}
}

// entry returns the entry of an object in the Store, or nil.
func (p *ledgerPast) entry(id objects.ID) *checkpoint.Object {
	if p.saved == nil {
		return nil
	}
	for i, o := range p.saved.Position.Objects {
		if ledgerID(o) == id {
			return &p.saved.Position.Objects[i]
		}
	}
	return nil
}

// ledgerMerged returns what a Store has after a commit. C may be nil.
func ledgerMerged(c *checkpoint.Checkpoint, d checkpoint.Delta) *checkpoint.Checkpoint {
	next := &checkpoint.Checkpoint{Identity: d.Identity, Position: checkpoint.Position{
		ResourceVersions: d.ResourceVersions, Partial: d.Partial, Rewound: d.Rewound, Unclean: d.Unclean}}
	all := slices.Clone(d.Put)
	if c != nil && !d.Reset {
		for _, o := range c.Position.Objects {
			is := func(other checkpoint.Object) bool { return compareEntries(o, other) == 0 }
			if !slices.ContainsFunc(d.Put, is) && !slices.ContainsFunc(d.Removed, is) {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, compareEntries)
	next.Position.Objects = all
	return next
}
