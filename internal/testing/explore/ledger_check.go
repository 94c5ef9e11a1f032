package explore

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// ledgerPromises checks the promises about a program.
type ledgerPromises struct {
	p *ledgerProgram
}

func (p *ledgerProgram) promises() ledgerPromises { return ledgerPromises{p} }

// ledgerBase is what the checkpoint of a line may hold at the place before its first event that is not acked.
type ledgerBase struct {
	version string
	within  bool // a snapshot, whose beginning is acked
	partial bool
	epoch   int8 // of the server at the last SYNCED
	entries ledgerWorld
}

// advance moves the base over an event that is acked, and over a pass.
func (b *ledgerBase) advance(e *ledgerEvent) {
	b.version, b.within = e.at, e.at == ""
	b.entries = e.applyTo(b.entries)
	if e.kind == stream.Synced {
		b.epoch = e.content.epoch
	}
}

// taken checks what a commit is about to store.
func (c ledgerPromises) taken() {
	p := c.p
	after := &ledgerMerged(p.past.saved, p.run.delta).Position
	var events []stream.Event
	var acked []bool
	for _, e := range p.run.events {
		if e.kind != "" && !e.hidden {
			events, acked = append(events, e.event(len(p.run.lines) > 1)), append(acked, e.acked)
		}
	}
	before := &checkpoint.Position{ResourceVersions: map[string]string{}}
	for _, l := range p.run.lines {
		before.ResourceVersions[l.namespace] = l.base.version
		before.Partial = before.Partial || l.base.partial
		for _, o := range l.base.entries {
			before.Objects = append(before.Objects, checkpoint.Object{
				Namespace: o.id.Namespace, Name: o.id.Name, UID: o.id.UID, ResourceVersion: o.version})
		}
		if got := p.run.delta.ResourceVersions[l.namespace]; got != l.base.version {
			p.breaks(fmt.Errorf("the commit is at %q of %s, the first event that is not acked comes after %q",
				got, l.name(), l.base.version))
		}
	}
	err := oracle.CheckCheckpoint(oracle.CheckpointRun{
		Before: before, After: after, Events: events, Acked: func(i int) bool { return acked[i] },
		PositionsOnly: p.setup.positionsOnly, Options: streamtest.CheckOptions{Namespaces: p.setup.namespaces},
	})
	if err != nil {
		p.breaks(fmt.Errorf("%w\nthe commit leads to %+v", err, *after))
	}
}

// event returns the event as a caller of a Stream gets it.
func (e *ledgerEvent) event(joint bool) stream.Event {
	ev := stream.Event{Type: e.kind, Namespace: e.line.namespace, ResourceVersion: e.content.version,
		Inferred: e.inferred}
	switch {
	case e.isObject():
		ev.Object = &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"name": e.id.Name, "namespace": e.id.Namespace, "uid": string(e.id.UID),
			"resourceVersion": e.content.version,
		}}}
		ev.Envelope(friend.Access{}).Coalesced = e.coalesced
	case e.kind == stream.Gap:
		ev.Gap = &stream.GapDetails{Reason: e.reason, From: e.at}
	case e.kind == stream.Synced && joint:
		ev.Namespace, ev.ResourceVersion = "", ""
	}
	return ev
}

// writtenAhead checks that the Store has an entry for an object that is about to be delivered as ADDED.
func (c ledgerPromises) writtenAhead(l *ledgerLine, e *ledgerEvent) {
	p := c.p
	switch {
	case p.past.marked:
	case !p.setup.marks && (p.run.failed || l.snapshot.unwritten):
		p.past.exposed = p.past.exposed.with(e.id, ledgerContent{}) // an entry that is there may be of an earlier time
	case p.past.entry(e.id) != nil:
		p.past.exposed = p.past.exposed.without(e.id)
	case p.setup.after && p.past.saved != nil && p.past.saved.Position.Partial:
		// It existed before the run and came back. Its first entry waits in a pass. Any GAP has HistoryLost until then.
		p.past.exposed = p.past.exposed.with(e.id, ledgerContent{})
	case p.setup.noWriteAhead || p.setup.positionsOnly:
		if p.past.saved == nil || !p.past.saved.Position.Unclean {
			p.breaks(fmt.Errorf("ADDED %s is delivered, and the Store is not Unclean", scriptText(e.id, "")))
		}
	default:
		p.breaks(fmt.Errorf("ADDED %s is delivered, and the Store has no entry for it", scriptText(e.id, "")))
	}
}

// rewound checks that the next run will know that the server has gone back in time, before GAP is delivered.
func (c ledgerPromises) rewound(e *ledgerEvent) {
	p := c.p
	if e.reason == stream.GapRewound && !p.run.failed && p.past.saved != nil && !p.past.saved.Position.Rewound {
		p.breaks(errors.New("GAP is delivered, and the Store does not know that the server has gone back in time"))
	}
}

// begun checks that the Store knows that the sequence has begun.
func (c ledgerPromises) begun(l *ledgerLine, e *ledgerEvent) {
	p := c.p
	switch {
	case p.past.marked, p.run.failed && !p.setup.marks:
	case p.past.saved == nil:
		p.breaks(fmt.Errorf("%s is delivered, and the Store has nothing", e.kind))
	case e.kind == stream.Synced:
		if _, ok := p.past.saved.Position.ResourceVersions[l.namespace]; !ok {
			p.breaks(fmt.Errorf("SYNCED is delivered, and the Store does not know that %s has begun", l.name()))
		}
	}
}

// version checks that the Store has a version of the line before a live event is delivered after SYNCED was acked.
func (c ledgerPromises) version(l *ledgerLine) {
	p := c.p
	if !l.wait.due || p.run.failed || l.base.version == "" {
		return
	}
	run := oracle.CheckpointRun{Options: streamtest.CheckOptions{Namespaces: p.setup.namespaces},
		Events: []stream.Event{
			{Type: stream.Synced},
			{Type: stream.Added, Namespace: l.namespace, Object: &unstructured.Unstructured{}},
		},
	}
	if p.past.saved != nil {
		run.After = &p.past.saved.Position
	}
	for _, other := range p.run.lines { // this is about one of them
		if other != l {
			run.Options.Namespaces = []string{l.namespace}
		}
	}
	if err := oracle.CheckSyncedIsCommitted(run, func(i int) int { return 1 - i }); err != nil {
		p.breaks(err)
	}
}

// Check returns an error if the state, or the step to it, breaks a promise.
func (s *ledgerState) Check() error {
	p := s.look()
	err := p.err
	if err == nil {
		err = errors.Join(p.promises().entries(), p.promises().status(), p.promises().quiet())
	}
	if err == nil && !p.past.isBlind() {
		err = s.setup.killed(p.left())
	}
	return s.describe(p, err)
}

// killed checks the next run of a program of which this is left, unless that was done before.
func (u *ledgerSetup) killed(left ledgerPast) error {
	k := ledgerKey{to: make([]byte, 0, 256)}
	k.past(u, &left)
	key := hashOf(checkedSeeds, k.ranked())
	if u.checked.has(key) {
		return nil
	}
	for _, lost := range []bool{false, true} {
		next := startLedger(u, left, lost)
		ledgerCalm{next}.deliver()
		if err := next.promises().worlds(); err != nil {
			return fmt.Errorf("if the program is killed now, history lost %v: %w", lost, err)
		}
	}
	u.checked.add(key)
	return nil
}

// describe adds what the Store has, and the calls of this run.
func (s *ledgerState) describe(p *ledgerProgram, err error) error {
	if err == nil {
		return nil
	}
	saved := "nothing"
	if p.past.saved != nil {
		saved = fmt.Sprintf("%+v", p.past.saved.Position)
	}
	return fmt.Errorf("%w\nthe Store has %s\nin the words of feeder in package acks: %v",
		err, saved, s.program(true).script)
}

// deliver delivers everything.
func (c ledgerCalm) deliver() {
	p := c.p
	for more := true; more; {
		more = p.run.committing
		if p.run.committing {
			p.answer(true, true)
		}
		for _, l := range p.run.lines {
			if !l.wait.waits && l.hasNext(p) {
				l.goOn(p)
				more = true
			}
		}
	}
}

// worlds checks that the receiver knows the objects on the server, according to what it has acked and this run has
// delivered, and according to all that was delivered.
func (c ledgerPromises) worlds() error {
	p := c.p
	if p.err != nil {
		return p.err
	}
	for i, got := range []ledgerWorld{p.withAll(p.past.handled), p.delivered()} {
		what := []string{"was acked, and delivered in the next run", "was delivered"}[i]
		for _, o := range p.past.server.world {
			if c, ok := got.of(o.id); !ok {
				return fmt.Errorf("%s is missing in what %s", scriptText(o.id, o.version), what)
			} else if c != o.ledgerContent {
				return fmt.Errorf("%s is at %v in what %s", scriptText(o.id, o.version), c, what)
			}
		}
		for _, o := range got {
			if !p.past.server.world.has(o.id) && !p.past.exposed.has(o.id) {
				return fmt.Errorf("%s is gone, but not in what %s", scriptText(o.id, ""), what)
			}
		}
	}
	return nil
}

// entries checks that the Store has an entry for each object that was delivered: else its deletion is missed.
func (c ledgerPromises) entries() error {
	p := c.p
	switch saved := p.past.saved; {
	case p.setup.positionsOnly, p.setup.deferred && saved == nil, saved != nil && saved.Position.Unclean, p.past.marked:
		return nil
	}
	for i, w := range []ledgerWorld{p.delivered(), p.acked()} {
		for _, o := range w {
			if p.past.entry(o.id) == nil && !p.past.exposed.has(o.id) {
				return fmt.Errorf("%s was %s, and the Store has no entry for it",
					scriptText(o.id, ""), []string{"delivered", "acked"}[i])
			}
		}
	}
	return nil
}
