package acks

import (
	"context"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/objects"
)

// Session is one run of a sequence of events under a key. Begin makes it, and package stream delivers the events.
type Session struct {
	ledger    *ledger
	committer commits
	position  *checkpoint.Position // where it resumes; nil once Position has returned it
}

// commits are a committer, or Books.
type commits interface {
	writeAhead(ctx context.Context, a account) error
	commitSoon()
	result() outcome
}

// Position returns where the sequence resumes, or nil if it starts from the beginning. It can be large, so that only
// the first call returns it, and later ones nil.
func (s *Session) Position() *checkpoint.Position {
	p := s.position
	s.position = nil
	return p
}

// Progress returns the progress of a watched namespace, or of the cluster ("").
func (s *Session) Progress(namespace string) *Progress {
	return &Progress{ledger: s.ledger, committer: s.committer, line: s.ledger.line(namespace)}
}

// End ends delivery. Delivered events can still be acked until the next Session under the key begins. End may be called
// on nil.
func (s *Session) End() {
	if s == nil {
		return
	}
	s.ledger.end()
	s.committer.commitSoon()
}

// Status returns how far acks and commits are behind.
func (s *Session) Status() checkpoint.Status {
	st := checkpoint.Status{Key: s.ledger.key}
	var oldest time.Time
	if st.Unacked, oldest, st.Uncommitted = s.ledger.status(); !oldest.IsZero() {
		st.OldestUnacked = time.Since(oldest)
	}
	last := s.committer.result()
	st.LastCommit, st.Err, st.Attempts, st.NextTry = last.success, last.err, last.attempts, last.nextTry
	return st
}

// Progress is how far one namespace of a sequence (or the cluster) has been delivered and acked. Each namespace has
// versions of its own. Note, MayBeKnown, Mark, Pass and WriteSynced are called by one goroutine at a time, in the order
// of delivery. A nil Progress is that of a run without a checkpoint: WritesAhead, WriteSynced, WriteVersion and Rewound
// do nothing then.
type Progress struct {
	ledger    *ledger
	committer commits
	line      *line
}

// Note adds a change to the next Mark, or if no event delivers it, to the next Pass.
func (p *Progress) Note(c Change) { p.line.next.noted = append(p.line.next.noted, c) }

// MayBeKnown says that the next Mark is for the ADDED of an object that an earlier run may have delivered.
func (p *Progress) MayBeKnown() { p.line.next.mayBeKnown = true }

// Mark returns the mark of an event. After the event the sequence is at resourceVersion, which is empty within a
// snapshot. Partial is as in checkpoint.Position.
func (p *Progress) Mark(resourceVersion string, partial bool) *Mark {
	m := &Mark{ledger: p.ledger, line: p.line, entry: entry{delivered: time.Now()}}
	p.ledger.mark(p.line, &m.entry, resourceVersion, partial)
	return m
}

// Pass moves the sequence to a version without an event to ack: after a bookmark, at the beginning of a snapshot, or
// with the changes of objects that are not delivered.
func (p *Progress) Pass(resourceVersion string, partial bool) {
	p.ledger.pass(p.line, resourceVersion, partial)
}

// WritesAhead reports whether WriteAhead may have to write. With NoWriteAhead it writes once: that the position is
// Unclean.
func (p *Progress) WritesAhead() bool { return p != nil && p.ledger.writesAhead() }

// IsWrittenAhead reports whether the Store has an entry for an object that is about to be delivered, or will get one
// with the next commit.
func (p *Progress) IsWrittenAhead(id objects.ID) bool { return p.ledger.isWrittenAhead(id) }

// WriteAhead commits entries for objects that are about to be delivered as ADDED. While commits fail it returns at
// once: Status shows the failure, and delivery continues. If it returns an error, which is the cause of ctx, the
// objects must not be delivered. It may be called from any goroutine.
func (p *Progress) WriteAhead(ctx context.Context, ids []objects.ID) error {
	return p.await(ctx, p.ledger.ahead(p.line, ids))
}

// WriteSynced is called before the SYNCED of a version is delivered. Unless the Store knows more, it commits
//
//   - that the sequence has begun: then the next run begins with a GAP even if the ack of SYNCED was never committed
//     and no object exists,
//   - in a deferred session the version: nothing was delivered, so everything up to there counts as acked.
//
// It returns an error as WriteAhead does.
func (p *Progress) WriteSynced(ctx context.Context, resourceVersion string, partial bool) error {
	if p == nil {
		return nil
	}
	return p.await(ctx, p.ledger.synced(p.line, resourceVersion, partial))
}

// WriteVersion is called before a live event is delivered. If SYNCED is acked and the Store has no version, it commits
// the version: changes since then must not be lost if the program is killed. It returns an error as WriteAhead does.
func (p *Progress) WriteVersion(ctx context.Context) error {
	if p == nil {
		return nil
	}
	return p.await(ctx, p.ledger.live(p.line))
}

// Rewound says that the server has gone back in time. Until an event after a snapshot is acked, the next run can't
// resume from an acked version: it has to report the rewind first, and then everything again. The same is true for the
// others: the namespaces that are not watched now, or whose watch is not open.
//
// It returns an error as WriteAhead does.
func (p *Progress) Rewound(ctx context.Context, others ...*Progress) error {
	if p == nil {
		return nil
	}
	var lines []*line
	for _, p := range others {
		lines = append(lines, p.line)
	}
	return p.await(ctx, p.ledger.rewound(p.line, lines))
}

// await commits if the next event has to wait for it.
func (p *Progress) await(ctx context.Context, wait bool) error {
	if !wait {
		return nil
	}
	return p.committer.writeAhead(ctx, p.ledger)
}
