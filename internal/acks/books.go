package acks

import (
	"context"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Books are a Session without a Tracker: the caller makes the commits, and decides how they end. They are for package
// explore, which takes the steps of a program that keeps a checkpoint in every order.
type Books struct {
	Session *Session
	// Waits is set when an event has to wait for a commit. The caller resets it, and lets no event wait while commits
	// fail, as a Tracker does.
	Waits    bool
	ledger   *ledger
	exposure exposure
}

// NewBooks returns the Books of a program that has just been started, whose Store keeps positions only or not.
// NoWriteAhead is as in checkpoint.Options, deferred as in Begin. Saved is what the Store has, or nil.
func NewBooks(
	id checkpoint.Identity, noWriteAhead, positionsOnly, deferred bool, saved *checkpoint.Checkpoint,
) *Books {
	r := rules{noWriteAhead: noWriteAhead || positionsOnly, noObjects: positionsOnly, deferred: deferred}
	b := &Books{ledger: newLedger("key", id, r, func(int) {})}
	return b.succeed(&ledger{phase: closed}, saved)
}

// Next returns the Books of the next run in the same program. No commit may be under way.
func (b *Books) Next(deferred bool, saved *checkpoint.Checkpoint) *Books {
	r := b.ledger.rules
	r.deferred = deferred
	next := &Books{ledger: newLedger(b.ledger.key, b.ledger.identity, r, b.ledger.due), exposure: b.exposure}
	return next.succeed(b.ledger, saved)
}

func (b *Books) succeed(before *ledger, saved *checkpoint.Checkpoint) *Books {
	b.Session = &Session{ledger: b.ledger, committer: b, position: succeed(b.ledger, before, saved)}
	return b
}

// Take returns what there is to commit, if there is anything. Then the next call must be Committed.
func (b *Books) Take() (d checkpoint.Delta, ok bool) {
	b.exposure.gathered()
	if d, ok = b.ledger.take(); !ok {
		b.exposure.marked = b.exposure.marked && !b.exposure.isOver()
	}
	return d, ok
}

// Committed says how the commit of what Take returned has ended.
func (b *Books) Committed(d checkpoint.Delta, err error) {
	b.ledger.committed(d, err)
	b.exposure.marked = err != nil || b.exposure.marked && !b.exposure.isOver()
}

// Expose says that an event which waits for a commit is delivered without it.
func (b *Books) Expose() { b.exposure.delivered() }

// Marked reports whether the Store has to be marked.
func (b *Books) Marked() bool { return b.exposure.marked }

// Exposed reports whether an event was delivered since Take without the commit that it needs.
func (b *Books) Exposed() bool { return b.exposure.later }

// IsUrgent reports whether an event waits for a commit that has not begun.
func (b *Books) IsUrgent() bool { return b.ledger.isUrgent() }

// Memory returns all that is known, to be compared: what happens to Books depends on nothing else.
func (b *Books) Memory() any { return b.ledger }

func (b *Books) writeAhead(context.Context, account) error {
	b.Waits = true
	return nil
}

func (b *Books) commitSoon() {}

func (b *Books) result() outcome { return outcome{} }
