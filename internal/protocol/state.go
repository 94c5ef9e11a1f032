package protocol

// State is what the driver has to do next: one of [Listing], [Connecting], [ReadingInitial], [Streaming], [Probing],
// [Waiting] and [Stopped].
type State interface {
	recall() (Memory, bool)
}

// Recall returns the Memory that the State after s inherits, or false if the sequence has ended.
func Recall(s State) (Memory, bool) { return s.recall() }

type (
	// Listing reads a list, a page at a time. Pages are delivered as differences from the index, so a list may begin
	// again at any point.
	Listing struct {
		Memory      Memory
		tokens      []string // of the pages after the first; the last one is read next
		listVersion string   // resourceVersion of the pages read so far
		tries       int      // failures of this page
		duplicates  int      // pages in a row without anything new
		empties     int      // pages in a row without any object
		holds       holding  // on the pages read so far
	}
	// Connecting opens a watch at Version, or one that begins with a snapshot (a streaming list, KEP-3157).
	Connecting struct {
		Memory  Memory
		initial bool
		pending pendingSynced
	}
	// ReadingInitial receives the initial events of a streaming list, up to the bookmark that ends them. With retain,
	// none is delivered until that bookmark shows that they are not older than what was delivered before.
	ReadingInitial struct {
		Memory Memory
		retain bool
	}
	// Streaming receives events. Everything up to Version has been delivered, unless it is Doubted.
	Streaming struct {
		Memory      Memory
		began       string // the version at which the watch was opened
		pending     pendingSynced
		past        past // what it has sent from before it began
		frames      bool // this connection has sent something
		unversioned bool // ... without a resourceVersion, so Version is stale
	}
	// Probing reads a list of one object before a watch is opened at Version: the server must answer, permit it, and
	// not have gone back in time. After several watches that fell silent it reads a whole list, because one object may
	// keep the server from sending any (open-telemetry/opentelemetry-operator#4288: a conversion webhook).
	Probing struct {
		Memory   Memory
		pending  pendingSynced
		stalled  bool     // because the watch before it fell silent
		mayCheck bool     // a whole list may follow
		whole    bool     // the list is read as a whole
		tokens   []string // of its pages, as in Listing
	}
	// Waiting lets time pass before the next State.
	Waiting struct {
		Attempt int     // 1 is the first; later ones wait longer
		Cause   Failure // the wait is at least its RetryAfter
		next    State
	}
	// Stopped is the end of the sequence. The zero Stopped is an end without an error.
	Stopped struct {
		Err    error  // what failed
		Gap    Gap    // with Rules.FailOnGap: the gap that ended the sequence; else zero
		GaveUp GaveUp // if not zero, how long Err was retried
	}
)

// holding is what the objects of a list say about its version: nothing if there are none.
type holding int

const (
	nothing holding = iota
	older           // none has that version
	newest          // one has it
)

// past says which events a watch has sent that were not to be sent, because they are not after its beginning.
type past int

const (
	noPast   past = iota
	existing      // only ADDED: it seems to say what exists
	replayed      // others, too: what happened is sent again
)

// pendingSynced says when SYNCED is emitted.
type pendingSynced int

const (
	nonePending pendingSynced = iota
	// onceOpen: not before the watch is open, because the server may still refuse it. And client-go's fakes have no
	// history: changes that a test makes on SYNCED are only seen by a watch that is already open.
	onceOpen
	// onceContinued: not before the watch is known to go on (Continues). A server that has lost the history since
	// Version accepts the watch, and sends that error on it.
	onceContinued
)

// Token returns the continue token of the page to read, which is empty for the first page.
func (s Listing) Token() string { return lastOf(s.tokens) }

// Token does the same. Whole reports whether pages are read, and not one object.
func (s Probing) Token() string { return lastOf(s.tokens) }
func (s Probing) Whole() bool   { return s.whole }

func lastOf(tokens []string) string {
	if len(tokens) == 0 {
		return ""
	}
	return tokens[len(tokens)-1]
}

// Initial reports whether the watch begins with a snapshot.
func (s Connecting) Initial() bool { return s.initial }

// PendingSynced reports whether SYNCED is emitted once the watch is open.
func (s Connecting) PendingSynced() bool { return s.pending == onceOpen }

// Unconfirmed reports whether the driver must say that the watch Continues. ConfirmedBy reports whether it must do so
// before a Frame: one that is not from before the watch began.
func (s *Streaming) Unconfirmed() bool { return s.pending == onceContinued }

// ConfirmedBy is described at Unconfirmed.
func (s *Streaming) ConfirmedBy(f Frame) bool {
	return s.Unconfirmed() && (f.Kind.isBookmark() || !NotAfter(f.Version, s.Memory.version))
}

// Restarted reports whether the driver must say that the watch Continues, once nothing arrives for a while: so far it
// has said what exists.
func (s *Streaming) Restarted() bool { return s.past == existing }

// Doubted reports whether a list must show what was missed. Events are delivered meanwhile, and the driver says with
// Elapsed when the list is read: at once, but seldom if the server gives cause for it again and again.
func (s *Streaming) Doubted() bool { return s.Memory.gap.Reason != "" }

// MaySkip reports whether the driver may skip events that change nothing for the caller, and pass one [Frame] of the
// kind [SkippedFrame] in their place.
func (s Streaming) MaySkip() bool { return !s.Memory.rules.Partial && !s.unversioned }

// Stalled reports whether the wait is for an answer to the probe that follows a silent watch.
func (s Waiting) Stalled() bool {
	p, ok := s.next.(Probing)
	return ok && p.stalled
}

// Memory is what one State passes on to the next.
type Memory struct {
	rules   Rules
	synced  bool // SYNCED has been emitted
	current bool // SYNCED has been emitted, and no gap was found since
	place        // embedded, so that a rule names what it is about: m.version
	streaks      // the same: m.failures
	server  Server
}

// place is how far the sequence has been delivered.
type place struct {
	version string // everything up to here has been delivered
	// gap was found (relist, rejectStale), and is emitted when the next snapshot begins (beginSnapshot). Zero: none.
	gap     Gap
	reused  bool   // with gap: versions may mean other states than before
	minimum string // the version of the snapshot that is being delivered, as far as it is known
	since   string // with Rules.Partial: the caller may know objects that are not newer than this

	midSnapshot bool // part of a snapshot has been delivered
}

// streaks counts what has happened several times in a row.
type streaks struct {
	failures      int  // since the last healthy connection
	relists       int  // since the last healthy connection
	empty         int  // connections that closed soon and without a frame
	poison        int  // connections that ended at version with an unreadable event
	behind        int  // answers that were older than version
	silences      int  // watches that fell silent
	versionLacks  int  // lists without a version
	brokenInitial int  // streaming lists that broke off
	silent        bool // the last of the broken lists fell silent
	refusals      int  // requests that were refused with 401, before the first SYNCED, or later watches with 400
}

func (s Listing) recall() (Memory, bool)        { return s.Memory, true }
func (s Connecting) recall() (Memory, bool)     { return s.Memory, true }
func (s ReadingInitial) recall() (Memory, bool) { return s.Memory, true }
func (s Streaming) recall() (Memory, bool)      { return s.Memory, true }
func (s Probing) recall() (Memory, bool)        { return s.Memory, true }
func (s Waiting) recall() (Memory, bool)        { return s.next.recall() }
func (Stopped) recall() (Memory, bool)          { return Memory{}, false }

// Version returns the resourceVersion up to which everything has been delivered.
func (m Memory) Version() string { return m.version }

// Synced reports whether SYNCED has been emitted.
func (m Memory) Synced() bool { return m.synced }

// Lasts reports whether refusals do not end the sequence.
func Lasts(m Memory) bool { return m.synced || m.rules.RetryRefused }

// Current reports whether SYNCED has been emitted and no gap was found since.
func (m Memory) Current() bool { return m.current }

// Failures returns the number of failures since the last healthy connection.
func (m Memory) Failures() int { return m.failures }

// Resumable reports whether a later run can begin at Version, and what that run knows. It can't begin within a
// snapshot, while a GAP is pending, or without a version. If partial, the caller may know objects that the index does
// not know, and if unclean, an earlier run may have delivered more than it knows.
func (m Memory) Resumable() (partial, unclean, ok bool) {
	ok = !m.midSnapshot && m.gap == Gap{} && !m.server.versionless
	return m.rules.Partial, m.rules.Unclean, ok
}

// Unresumable reports whether no version says any more what was delivered, because the server's versions have proven
// wrong: until a list shows what was missed, a later run must begin with one.
func Unresumable(m *Memory) bool { return m.gap.Reason == GapUnordered }

// Server returns what was found out about the server.
func (m Memory) Server() Server { return m.server }

// Rewound reports whether a GAP is pending because the server has gone back in time.
func (m Memory) Rewound() bool { return m.gap.Reason == GapRewound || m.reused }

// Rules are the options that matter to the protocol, and what is known at the beginning. Partial, Unclean, Quiet and
// InitialEvents change on the way: they are only true until something else is known.
type Rules struct {
	FailOnGap         bool // a gap ends the sequence
	Partial           bool // the sequence started at a version; the index lacks the objects that existed then
	After             bool // the version is the caller's, and the server need not have reached it
	Unclean           bool // an earlier run may have delivered more than the index knows
	Quiet             bool // the first snapshot is not delivered
	UntilClosed       bool // the end of a watch ends the sequence
	UntilSynced       bool // the first SYNCED ends the sequence
	WantInitialEvents bool // streaming lists are wanted
	InitialEvents     bool // streaming lists are wanted, and the server seems to have them
	NoProbe           bool // lists say nothing about watches, and watches keep no history: client-go's fakes
	RetryRefused      bool // refusals are retried before the first SYNCED, too
}
