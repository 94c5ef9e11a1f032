package mux

import (
	"context"
	"iter"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Source is a sequence that a [Mux] merges with others. A [*stream.Stream] is one, and so is
// the [*stream.Sequence] that its With method returns. A type that embeds one of them is a Source, too: the Mux resumes
// what is embedded, and does not call an Events method that the type itself has.
type Source interface {
	// Key distinguishes the source from the others of the Mux. It never changes.
	Key() string
	// Events behaves like the method of a Stream: an error is the last value, the sequence ends soon after ctx does,
	// and there may be many runs, one at a time. Each run has a goroutine of its own, which must not call Remove for
	// its own key: Remove would wait for that goroutine.
	Events(ctx context.Context) iter.Seq2[stream.Event, error]
}

// hosted is a source that is, or embeds, a *stream.Stream or a *stream.Sequence.
type hosted interface {
	Host(context.Context, host.Run) iter.Seq2[stream.Event, error]
}

// watched is a source that is, or embeds, a *stream.Stream or a *stream.Sequence, which may be invalid.
type watched interface {
	Watched(friend.Access) (stream.Options, stream.Run, error)
}

// held is a source whose position must not be resumed from by others than who holds its events (host.Holder).
type held interface{ Hold(*host.Holder) }

// positioned is a Source that can resume, as a *stream.Stream.
type positioned interface{ Position() checkpoint.Position }

// reporting is a Source that has a Status, as a *stream.Stream.
type reporting interface{ Status() stream.Status }

// source is one source of a Mux. Mux.mu guards all but the first four fields.
type source struct {
	Source
	key     string
	options SourceOptions
	run     stream.Run // of a *stream.Sequence

	removed   bool
	discarded bool // an event of this run was discarded before the loop received it
	worker    worker
	buffer    buffer
	progress  progress
	failure   failure
}

// resumes reports whether the source goes on, in the next run of the Mux, where it was in the last one. What it has
// delivered to the Mux and not yet to the loop is kept until then.
func (s *source) resumes() bool { return s.run.Start == stream.Resume() && s.run.Checkpoint == nil }

// worker is the goroutine of a source.
type worker struct {
	state   state
	running bool
	stop    context.CancelCauseFunc
	done    <-chan struct{} // closed when it has ended
	runs    int             // how often it was started
	began   time.Time       // when it began to receive events
	ended   time.Time
}

// state is what a source does.
type state int

const (
	idle      state = iota // no run since it was added
	receiving              // or about to
	backingOff
	stopped
)

// buffer holds the events of a source that wait for the loop.
type buffer struct {
	queue
	scheduled bool          // the source is in backlog.ready
	blocked   *item         // does not fit into the queue; the worker waits
	room      chan struct{} // receives when what was blocked has been queued; of capacity one
}

// progress is what a source has done in the active run, or else in the last one.
type progress struct {
	buffered            bool // an event, so that it can resume
	restart             bool // it can't resume from its Position
	again               bool // it was started again, and no SYNCED came since
	finished            bool // without an error
	synced              bool // the loop has received SYNCED, and no GAP or error since
	coalesced, vanished uint64
}

// failure is the last failure of a source.
type failure struct {
	err     error
	inARow  int
	nextTry time.Time // zero if the source is not about to be retried
}

// reset prepares a source for a run. What waits is kept if the source resumes.
func (s *source) reset() {
	before := s.buffer.queue
	kept := before != nil && s.resumes() && before.load().items > 0
	s.worker.began, s.progress, s.failure = time.Time{}, progress{again: kept && s.progress.again}, failure{}
	s.buffer = buffer{queue: before, room: make(chan struct{}, 1)}
	switch {
	case kept:
	case s.options.Overflow == Latest:
		s.buffer.queue = newLatestQueue(&s.progress)
	default:
		s.buffer.queue = &blockQueue{}
	}
}

// settle says, at the end of a run, who holds the events that the source has delivered: nobody if one was discarded,
// keeper if some wait for the next run, or else the loop has received all. The source must not be running.
func (s *source) settle(keeper *host.Holder) {
	switch {
	case s.discarded:
		s.hold(host.Nobody)
	case s.buffer.load().events > 0:
		s.hold(keeper)
	}
	s.discarded = false
}

// hold says who holds the events that the source has delivered.
func (s *source) hold(by *host.Holder) {
	if h, ok := s.Source.(held); ok {
		h.Hold(by)
	}
}

// SourceOf returns the key of the source of an event that a Mux has delivered. It is empty for other events.
func SourceOf(ev stream.Event) string { return ev.Envelope(friend.Access{}).Source }
