package protocol

import "time"

// State says what the driver does next. It is one of [Listing], [Connecting], [Replaying],
// [Streaming], [Probing], [Waiting] and [Stopped].
type State interface {
	// Recall returns what outlives a change of State; false if the sequence has ended.
	Recall() (Memory, bool)
}

type (
	// Listing reads the list, a page at a time. Pages are delivered as differences to
	// the index, so a list may begin again at any point.
	Listing struct {
		Memory
		tokens      []string // of the pages after the first; the last one is read next
		listVersion string   // resourceVersion of the pages read so far
		tries       int      // failures of this page
		duplicates  int      // pages in a row that held nothing new
	}
	// Connecting opens a watch: at Version, or one that begins with a snapshot (a
	// streaming list, KEP-3157).
	Connecting struct {
		Memory
		streamed bool
		// pendingSynced: SYNCED is emitted once the watch is open. A caller should not
		// rely on a watch that may still be refused. And client-go's fakes remember no
		// deletions: what a test does on SYNCED must find the watch open.
		pendingSynced bool
	}
	// Replaying receives the initial events of a watch up to the bookmark that ends
	// them. With retain they are kept back until that bookmark has shown that they are
	// not older than what was delivered before.
	Replaying struct {
		Memory
		retain bool
	}
	// Streaming receives events. Everything up to Version has been delivered.
	Streaming struct {
		Memory
		frames      bool // this connection has sent something
		unversioned bool // ... without a resourceVersion, so Version is stale
	}
	// Probing reads a list of one object, to learn whether the watch at Version can be
	// opened again: whether the server answers, permits it, and has not gone back in time.
	Probing struct {
		Memory
		pendingSynced bool // as in Connecting
		stalled       bool // the watch before it fell silent
	}
	// Waiting lets time pass before the next State.
	Waiting struct {
		Attempt int     // 1 is the first; later ones wait longer
		Cause   Failure // its RetryAfter is the shortest wait
		next    State
	}
	// Stopped is the end. The zero Stopped is an end without an error.
	Stopped struct {
		Err    error  // what failed
		Gap    *Gap   // with Rules.FailOnGap: the gap that ended the sequence
		GaveUp GaveUp // if not zero, Err was retried for so long
	}
)

// Token is that of the page to read, empty for the first.
func (s Listing) Token() string {
	if len(s.tokens) == 0 {
		return ""
	}
	return s.tokens[len(s.tokens)-1]
}

// Streamed says whether the watch begins with a snapshot.
func (s Connecting) Streamed() bool { return s.streamed }

// PendingSynced says whether SYNCED follows once the watch is open.
func (s Connecting) PendingSynced() bool { return s.pendingSynced }

// MaySkip says whether the driver may leave out events that report nothing, and
// give one [Frame] of the kind [SkippedFrame] for them.
func (s Streaming) MaySkip() bool { return !s.rules.Partial && !s.unversioned }

// Stalled says whether the wait is for a server that does not say why its watch fell
// silent.
func (s Waiting) Stalled() bool {
	p, ok := s.next.(Probing)
	return ok && p.stalled
}

// Memory is what outlives a change of State.
type Memory struct {
	rules   Rules
	synced  bool // SYNCED has been emitted
	current bool // ... and no gap since
	place
	streaks
}

// place is how far the sequence has come.
type place struct {
	version string // everything up to here has been delivered
	gap     *Gap   // found and not emitted yet
	begun   bool   // a snapshot has been delivered in part
	minimum string // the version of that snapshot, as far as it is known
	since   string // with Rules.Partial: objects that are not newer may have been known at the gap
}

// streaks count what happened several times in a row.
type streaks struct {
	failures    int  // since a connection last was healthy
	relists     int  // likewise
	empty       int  // connections that closed soon and without a frame
	poison      int  // connections that ended at what can't be read, at version
	behind      int  // answers that were older than version
	brokenLists int  // streaming lists that broke off
	silent      bool // the last of those fell silent
}

// Recall returns m.
func (m Memory) Recall() (Memory, bool) { return m, true }

// Recall returns what the next State recalls.
func (s Waiting) Recall() (Memory, bool) { return s.next.Recall() }

// Recall returns false.
func (Stopped) Recall() (Memory, bool) { return Memory{}, false }

// Version is the resourceVersion up to which everything has been delivered.
func (m Memory) Version() string { return m.version }

// Current says whether SYNCED has been emitted, and no gap was found since.
func (m Memory) Current() bool { return m.current }

// Failures counts failures since a connection last was healthy.
func (m Memory) Failures() int { return m.failures }

// Incomplete says whether objects may have been delivered that the index does not know.
func (m Memory) Incomplete() bool { return m.rules.Partial || m.rules.NoIndex }

// Unclean says whether an earlier run may have delivered more than is known.
func (m Memory) Unclean() bool { return m.rules.Unclean }

// Resumable says whether a later run can begin at Version: not within a
// snapshot, nor while a gap is still to be emitted.
func (m Memory) Resumable() bool { return !m.begun && m.gap == nil }

// Rewound says whether a gap is to be emitted because the server has gone back in time.
func (m Memory) Rewound() bool { return m.gap != nil && m.gap.Reason == GapRewound }

// Rules are the options that the protocol heeds, and what is known of the server.
type Rules struct {
	FailOnGap    bool // a gap ends the sequence
	NoIndex      bool // nothing is known of the objects that were delivered
	Partial      bool // the index lacks what existed before the start at a version
	Unclean      bool // more may have been delivered than the index knows
	Quiet        bool // the first snapshot is not delivered
	UntilClosed  bool // the end of a watch ends the sequence
	UntilSynced  bool // the first SYNCED ends it
	WantStreamed bool // streaming lists are wanted
	Streamed     bool // ... and not known to be missing
	NoProbe      bool // lists say nothing about watches: client-go's fakes
}

// Gap is one that was found.
type Gap struct {
	Reason Reason
	From   string // resourceVersion up to which everything has been delivered
}

// Reason says why a gap is one.
type Reason string

// The reasons are documented in package stream.
const (
	GapExpired     Reason = "expired"
	GapRewound     Reason = "rewound"
	GapPoison      Reason = "poison"
	GapUnversioned Reason = "unversioned"
	GapRestarted   Reason = "restarted"
	GapScope       Reason = "scope"
)

// Input is what came of what a State asked for. It is one of [Page], [Opened], [Frame], [Silent],
// [Closed], [Failed], [Elapsed] and [GaveUp].
type Input any

type (
	// Page is an answer to a list or a probe. A Duplicate holds nothing that the list has
	// not had before.
	Page struct {
		Version, Token string
		Duplicate      bool
	}
	// Opened: the server has accepted the watch.
	Opened struct{}
	// Frame is an event of the server about an object, or a bookmark.
	Frame struct {
		Kind    FrameKind
		Version string
	}
	// Silent: nothing has come for so long that the connection may be dead.
	Silent struct{}
	// Closed: the connection ended this long after it was opened, with the error that the
	// server sent in it, if any.
	Closed struct {
		After   time.Duration
		Planned bool // at the time the server was asked to end it
		Cause   Failure
	}
	// Failed: the list, the probe or the opening of the watch failed.
	Failed struct{ Failure }
	// Elapsed: the wait is over.
	Elapsed struct{}
	// GaveUp: requests have failed for longer than the caller wants to retry.
	GaveUp struct{ After time.Duration }
)

// FrameKind says what a Frame is about.
type FrameKind int

const (
	AddedFrame    FrameKind = iota
	ChangedFrame            // MODIFIED or DELETED
	BookmarkFrame           // BOOKMARK
	MarkerFrame             // the BOOKMARK that ends the initial events
	SkippedFrame            // stands for events that report nothing
)

func (k FrameKind) isBookmark() bool { return k == BookmarkFrame || k == MarkerFrame }

func (k FrameKind) isOfObject() bool { return k == AddedFrame || k == ChangedFrame }

// Output is an event to emit, or something to remember. Outputs are carried out in order.
type Output any

type (
	// EmitGap emits GAP. To is the version of the snapshot to come, if it is known.
	EmitGap struct {
		Gap
		To          string
		HistoryLost bool
	}
	// BeginSnapshot forgets which objects were seen by a snapshot that broke off.
	BeginSnapshot struct{}
	// EmitPage emits what the page has that is new or changed.
	EmitPage struct{ Mode }
	// EmitInitial emits the initial event in the same way.
	EmitInitial struct{ Mode }
	// RetainInitial keeps the initial event, to be emitted as part of a page.
	RetainInitial struct{}
	// EndSnapshot emits DELETED for what the snapshot did not have, or, if Quiet, forgets it.
	EndSnapshot struct{ Quiet bool }
	// EmitSynced emits SYNCED: everything that existed at Version has been delivered.
	EmitSynced struct{ Version string }
	// EmitEvent emits the event. With it everything up to Version has been delivered,
	// unless that is empty. A Replay is at or before what has been delivered, so it counts
	// only where the index shows that it is news.
	EmitEvent struct {
		Version         string
		Replay, Partial bool
	}
	// EmitBookmark emits BOOKMARK: everything up to Version has been delivered.
	EmitBookmark struct{ Version string }
	// NoStreamedLists remembers that the server has no streaming lists.
	NoStreamedLists struct{ Cause error }
)

// Mode says which objects of a snapshot are delivered.
type Mode struct {
	Quiet bool   // none; they are only entered into the index
	Since string // not those that the index does not know and that are not newer than this
}
