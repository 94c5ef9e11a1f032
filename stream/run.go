package stream

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// Run says how one loop over the events of a Stream goes: where it begins and ends, and what is remembered. The zero
// value is the default, and that of [Stream.Events]: everything that exists, then what changes.
type Run struct {
	// Start is where the run begins. Zero means a snapshot: everything that exists, as ADDED, then SYNCED. The others
	// are [Now], [After], [From] and [Resume].
	Start Start
	// Until is when the run ends by itself: [UntilSynced] or [UntilClosed]. Empty means never.
	Until End
	// Checkpoint stores which events were acked ([Event.Ack]), so that the next run of this or a later process
	// resumes from there; Start applies only to the first run. With UntilSynced, a run that resumes delivers what
	// differs from what was acked, without a GAP, then SYNCED: not what came and went in between. Otherwise it begins
	// as [From] does. [Options.Select] must be the same each time; another Select needs another Key. Nil means no
	// checkpoint.
	Checkpoint *checkpoint.Tracker
	// Key is the name of the sequence, in a Mux and in the Checkpoint: there 1 to 200 letters, digits, '-', '_' or '.'.
	// Empty means the resource and its group ("deployments.apps") in the Checkpoint, whatever the version, and
	// otherwise the key of the Stream ([Stream.Key]). Two sequences of one resource need different keys.
	Key string
	// FailOnGap ends the run with a [*GapError] where it would otherwise deliver GAP. With a Checkpoint each later run
	// ends in the same way, until the key is removed from the Store; so does one that would [Resume].
	FailOnGap bool
	// RetryRefused goes on, before the first SYNCED as after it, when the server refuses the list or the watch, or
	// returns an unusable list ([Stream.Events] names the answers): for a CRD, a right or a token that comes later than
	// the program. The waits grow to 15 s. [Status] is then Forbidden, Gone, Unauthorized or Backoff, with the cause
	// and the next try. [Requests].GiveUpAfter bounds it.
	RetryRefused bool
	// Bookmarks delivers BOOKMARK events. The Stream requests them from the server in any case.
	Bookmarks bool
}

// End is when a run ends by itself.
type End string

const (
	// UntilSynced ends the run after its first SYNCED. The right to list is enough, or to watch: once the list is
	// complete, a watch that the server refuses (403 or 405) is no error.
	UntilSynced End = "synced"
	// UntilClosed ends the run after SYNCED, as soon as the server has ended a watch. With several namespaces, one
	// watch is enough. If the server ends it with an error, the run yields that error. A 410 is a gap instead, and
	// does not end the run.
	UntilClosed End = "closed"
)

// Start is where a run begins. Zero is a snapshot. Starts without a position can be compared with ==.
type Start struct {
	kind     startKind
	version  string
	position *checkpoint.Position // of startFrom; else nil
}

type startKind string

const (
	startSnapshot startKind = ""
	startNow      startKind = "Now"
	startAfter    startKind = "After"
	startFrom     startKind = "From"
	startResume   startKind = "Resume"
)

// Now begins with SYNCED. Existing objects are read, so that later changes and deletions can be reported, but they are
// not delivered.
func Now() Start { return Start{kind: startNow} }

// After begins with SYNCED, then the changes after a resourceVersion. SYNCED comes as with [From]. The Stream does not
// know the objects that existed at that version:
//
//   - Their MODIFIED and DELETED are delivered as the server sends them.
//   - Their deletion during a gap is not reported (the GAP has HistoryLost).
//   - If their first change makes them stop matching [Options.Select], that is not reported.
//
// [From] and [Resume] avoid these losses.
//
// If the server has not reached that version, the run begins with a GAP ([GapFuture]) and everything that exists. If
// the caller may not list, the Stream can't know, and delivers nothing until the server has reached it.
func After(resourceVersion string) Start { return Start{kind: startAfter, version: resourceVersion} }

// From resumes where p was taken ([Stream.Position]): with the changes since then or, if the server no longer knows
// them, with GAP and the differences. A position from within a snapshot resumes with GAP ([GapRestarted]) and the
// differences. p is copied. If the server has not reached its versions, it has gone back in time ([GapRewound]).
//
// Such a run delivers SYNCED at the version where it resumes, once the watch is known to go on there: before its first
// event, or after a second of silence. The changes that were missed come after it. If the server has lost them, GAP and
// the differences come first, and SYNCED is that of the new snapshot.
func From(p checkpoint.Position) Start {
	p.ResourceVersions, p.Objects = maps.Clone(p.ResourceVersions), slices.Clone(p.Objects)
	return Start{kind: startFrom, position: &p}
}

// Resume continues where the last run of the Stream ended, as [From] with its [Stream.Position] does. What the loop has
// received counts as handled, so a program that must not lose what it was about to do needs a Checkpoint. In a Mux,
// the events that waited when its run ended come first.
//
// The run begins with a snapshot instead if it is the first one, if the one before panicked or began at [Now] and did
// not reach SYNCED, or if events of it were discarded: by a Mux to which the sequence was added without Resume, or from
// which it was removed.
func Resume() Start { return Start{kind: startResume} }

// Sequence is the sequence of events of a Stream with a Run: see [Stream.With]. Each loop over it is one run of the
// Stream, which has one run at a time. Its methods may be called from any goroutine.
type Sequence struct {
	stream *Stream
	run    Run
	err    error // of the Run
}

// With returns the sequence whose loops go as r says. Like the Stream it is a source of a Mux. If r is invalid, loops
// over it yield an [*OptionsError], and so does a Mux that it is added to.
func (s *Stream) With(r Run) *Sequence {
	q := &Sequence{stream: s, run: r}
	if s == nil || s.target == nil {
		q.err = errNotMade
	} else {
		q.err = r.check(s)
	}
	return q
}

var errNotMade = invalid.New("Stream", "", "must be made with stream.New")

// Key returns Run.Key or, if that is empty, the resource and its group with a Checkpoint ("deployments.apps"), and
// otherwise the key of the Stream.
func (q *Sequence) Key() string {
	switch {
	case !q.made():
		return ""
	case q.run.Key != "":
		return q.run.Key
	case q.run.Checkpoint != nil:
		return q.stream.resource.GroupResource().String()
	}
	return q.stream.Key()
}

// Resource returns the watched resource.
func (q *Sequence) Resource() gvr.Resource {
	if !q.made() {
		return gvr.Resource{}
	}
	return q.stream.resource
}

// Events returns the sequence. [Stream.Events] documents it.
func (q *Sequence) Events(ctx context.Context) iter.Seq2[Event, error] {
	return q.Host(ctx, host.Run{})
}

// Status returns that of the Stream.
func (q *Sequence) Status() Status {
	if !q.made() {
		return Status{State: Idle}
	}
	return q.stream.Status()
}

// Synced returns Status.Synced, and whether runs deliver everything that exists, for packages of this module.
func (q *Sequence) Synced(friend.Access) (all, whole bool) {
	_, run, err := q.Watched(friend.Access{})
	return q.Status().Synced, err == nil && run.Start == Start{} && run.Checkpoint == nil
}

// Position returns that of the Stream.
func (q *Sequence) Position() checkpoint.Position {
	if !q.made() {
		return checkpoint.Position{}
	}
	return q.stream.Position()
}

// Host is Events with what package host describes, for packages of this module.
func (q *Sequence) Host(ctx context.Context, h host.Run) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		_, _, err := q.Watched(friend.Access{})
		if ctx == nil {
			err = invalid.New("ctx", "", "must not be nil")
		}
		if err == nil {
			err = q.stream.runOnce(ctx, q.run, h, yield)
		}
		if err != nil {
			yield(Event{}, err)
		}
	}
}

// Watched returns the Options of the Stream with their defaults, the Run, and an error if one of them is invalid, for
// packages of this module.
func (q *Sequence) Watched(friend.Access) (Options, Run, error) {
	switch {
	case !q.made():
		return Options{}, Run{}, errNotMade
	case q.err != nil:
		return Options{}, Run{}, q.err
	}
	return q.stream.options, q.run, nil
}

// made reports whether q is from With of a Stream.
func (q *Sequence) made() bool { return q != nil && q.stream != nil }

// Hold records who holds events that the last run has delivered, for packages of this module.
func (q *Sequence) Hold(_ friend.Access, by *host.Holder) {
	if q.made() {
		q.stream.Hold(friend.Access{}, by)
	}
}
