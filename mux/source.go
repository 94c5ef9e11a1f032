package mux

import (
	"cmp"
	"context"
	"iter"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
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

// What else a Source can do that is, or embeds, a *stream.Stream or a *stream.Sequence. Watched returns an error if it
// is invalid. Hold says who may resume from its Position (host.Holder).
type (
	hosted interface {
		Host(context.Context, host.Run) iter.Seq2[stream.Event, error]
	}
	watched interface {
		Watched(friend.Access) (stream.Options, stream.Run, error)
	}
	held interface {
		Hold(friend.Access, *host.Holder)
	}
	positioned interface{ Position() checkpoint.Position }
	reporting  interface{ Status() stream.Status }
)

// merging is a Source with sources of its own: it embeds a *Mux, or one of package follow.
type merging interface {
	Synced(friend.Access) (all, whole bool)
	includes(*Mux) bool
	itself() *Mux
}

// source is what a Mux knows of one of its sources. sourceSet.mu guards all but the first six fields.
type source struct {
	from    Source
	merges  merging // from, or nil if it has no sources of its own
	key     string
	options SourceOptions
	run     stream.Run  // of a *stream.Sequence
	group   *host.Group // of the follower that has added it; nil for none

	removed   bool
	held      bool // its group starts it (StartSources)
	discarded bool // an event of this run was discarded before the loop received it
	worker    lastWorker
	buffer    buffer
	progress  progress
	failure   failure
}

// newSource returns a source that has not begun, or a *stream.OptionsError.
func newSource(from Source, o SourceOptions) (*source, error) {
	s := &source{from: from, key: cmp.Or(o.Key, from.Key()), options: o, worker: lastWorker{state: stream.Idle}}
	s.merges, _ = from.(merging)
	if g, ok := from.(grouped); ok {
		s.group = g.Group(friend.Access{})
	}
	if w, ok := from.(watched); ok {
		var err error
		if _, s.run, err = w.Watched(friend.Access{}); err != nil {
			return nil, err
		}
	}
	if s.key == "" {
		return nil, invalid.New("Key", "", "must not be empty: give the Source a Key, or set SourceOptions.Key")
	}
	s.reset()
	return s, nil
}

// resumes reports whether the source goes on, in the next run of the Mux, where it was in the last one. What it has
// delivered to the Mux and not yet to the loop is kept until then.
func (s *source) resumes() bool { return s.run.Start == stream.Resume() && s.run.Checkpoint == nil }

// lastWorker is the active worker of a source, or else the last one.
type lastWorker struct {
	state   stream.State // Idle, Backoff, Stopped, or while it receives (or is about to) Listing
	running bool
	stop    context.CancelCauseFunc
	done    <-chan struct{} // closed when it has ended
	number  int             // 1 for the first worker of the source
	began   time.Time       // when it began to receive events
	ended   time.Time
}

// progress is what a source has done in the active run, or else in the last one.
type progress struct {
	buffered bool // an event, so that it can resume
	restart  bool // it can't resume from its Position
	finished bool // without an error
	synced   bool // the loop has received SYNCED of all sources of the source, and no GAP or error since
	partly   bool // ... SYNCED, at least of one of them
}

// failure is the last failure of a source.
type failure struct {
	err     error
	inARow  int
	nextTry time.Time // zero if the source is not about to be retried
}

// isSynced reports whether the loop has received SYNCED of s and, if s merges sources of its own, of all of them. If
// one of those was removed, no SYNCED says so: then nothing of s must wait for the loop, and whoever asks must ask s.
func (s *source) isSynced() bool {
	return s.progress.synced ||
		s.progress.partly && s.merges != nil && s.buffer.load().items == 0 && s.buffer.blocked == nil
}

// sign writes into an event from which source it is.
func (s *source) sign(ev *stream.Event) {
	e := ev.Envelope(friend.Access{})
	e.Source, e.Prefix = s.key, 0
	if s.group != nil {
		e.Prefix = int32(len(s.group.Prefix))
	}
}

// reset prepares a source for a run. What waits is kept if the source resumes.
func (s *source) reset() {
	s.held, s.progress, s.failure = false, progress{}, failure{}
	s.buffer.reset(s.options.Overflow, s.resumes())
}

// settle says, at the end of a run, who holds the events that the source has delivered: nobody if one was discarded,
// keeper if some wait for the next run, or else the loop has received all. The source must not be running.
func (s *source) settle(keeper *host.Holder) {
	h, ok := s.from.(held)
	switch {
	case !ok:
	case s.discarded:
		h.Hold(friend.Access{}, host.Nobody)
	case s.buffer.load().events > 0:
		h.Hold(friend.Access{}, keeper)
	}
	s.discarded = false
}

// sourceSet is the sources of a Mux, in all its runs, and what waits of them for the loop. It starts nothing and calls
// nothing that waits. The callers of its methods hold mu.
type sourceSet struct {
	mu      sync.Mutex
	byKey   map[string]*source
	groups  map[string]*group          // by prefix
	leaving map[string]<-chan struct{} // by key or prefix; closed when a source or group that was removed has ended
	backlog backlog
	holder  host.Holder // holds what waits between two runs
	ended   int         // number of sources that have ended without an error
	synced  int         // number of sources with progress.synced
}

// add adds a source, or returns a *stream.OptionsError if there is one, or a group, with its key, or its own group has
// been removed.
func (all *sourceSet) add(s *source) error {
	switch {
	case all.byKey[s.key] != nil:
		return invalid.New("Key", s.key,
			"must differ from those of the other sources: remove the other source first, or set SourceOptions.Key")
	case all.groups[s.key] != nil:
		return invalid.New("Key", s.key, "must differ from the prefixes of the followers of the Mux")
	case s.group != nil && all.groupOf(s.group) == nil:
		return invalid.New("Prefix", s.group.Prefix, "must be that of a follower of the Mux: it has been removed")
	}
	all.byKey[s.key] = s
	return nil
}

// find returns the source that was added as s under its own key, or nil.
func (all *sourceSet) find(s Source) *source {
	if found := all.byKey[s.Key()]; found != nil && found.from == s {
		return found
	}
	return nil
}

// detach takes a source out. It returns a channel that is closed when the source has ended, or nil if it has.
func (all *sourceSet) detach(s *source) <-chan struct{} {
	delete(all.byKey, s.key)
	all.lose(s)
	s.removed = true
	if s.progress.finished {
		all.ended--
	}
	all.backlog.purge(s)
	s.discarded = true   // even if nothing waited: whoever adds the source again begins again
	all.backlog.notify() // the run may have nothing left to wait for
	if !s.worker.running {
		s.settle(nil)
		return nil
	}
	all.leaving[s.key] = s.worker.done
	s.worker.stop(errStopped)
	return s.worker.done
}

// reset prepares for a run.
func (all *sourceSet) reset() {
	all.ended, all.synced = 0, 0
	for _, s := range all.byKey {
		s.reset()
		all.backlog.schedule(s)
	}
}

// end records the end of a source whose events have all been delivered.
func (all *sourceSet) end(s *source, err error) {
	s.worker.state, s.failure.err = stream.Stopped, err
	if err != nil {
		all.lose(s)
		return
	}
	s.progress.finished = true
	all.ended++
}

// reach records that the loop receives a SYNCED of s, which may be that of one of several sources of s.
func (all *sourceSet) reach(s *source, ev *stream.Event) {
	e := ev.Envelope(friend.Access{})
	all.lose(s)
	s.progress.partly = true
	if s.progress.synced = !e.Unsynced; s.progress.synced && !s.removed {
		all.synced++
	}
	e.Unsynced = all.synced < len(all.byKey) // for a Mux that this one is a source of
}

// lose records that s is not synced any more.
func (all *sourceSet) lose(s *source) {
	if s.progress.synced && !s.removed {
		all.synced--
	}
	s.progress.synced, s.progress.partly = false, false
}

func (all *sourceSet) allEnded() bool { return len(all.byKey) > 0 && all.ended == len(all.byKey) }

// settle keeps or discards what waits at the end of a run. No worker is left.
func (all *sourceSet) settle() {
	for _, s := range all.byKey {
		switch {
		case !s.resumes() || s.discarded || s.progress.restart:
			s.discarded = all.backlog.purge(s) || s.discarded
		case s.buffer.blocked != nil:
			all.backlog.keep(s, s.buffer.blocked)
		}
		s.settle(&all.holder)
		s.worker.state = stream.Stopped
	}
	all.backlog.ready, all.backlog.asleep = ring[*source]{}, false
}

// SourceOf returns the key of the source of an event that a Mux has delivered. It is empty for other events.
func SourceOf(ev stream.Event) string { return ev.Envelope(friend.Access{}).Source }
