package protocol

import "time"

// Input is the result of what a State asked for: one of the following, not a pointer to one.
type Input interface{ input() }

type (
	// Page is the answer to [Listing] or [Probing].
	Page struct {
		Version, Token string
		Duplicate      bool // it has objects, and every one was in the list before
		Empty          bool // it has no objects
		Newest         bool // one of its objects has the Version
		Ahead          bool // one of its objects has a later version
		Below          bool // the first page has an object in an older version than was delivered
		// Differs: the whole list that Probing reads has changes that were not delivered. It is set with the last page.
		Differs bool
		// NoVersion is the error to report if the Version is empty, or none to watch from.
		NoVersion error
	}
	// Opened says that the server has accepted the watch of [Connecting].
	Opened struct{}
	// Failed says that a list or a probe failed, or that the watch could not be opened.
	Failed struct{ Cause Failure }
	// Frame is an event from the server, for [ReadingInitial] and [Streaming]: a change of an object, or a bookmark.
	Frame struct {
		Kind    FrameKind
		Version string
	}
	// Silent says that nothing has arrived for so long that the connection may be dead. With CheckDue the last
	// [Probing] that has read a whole list is long ago.
	Silent struct{ CheckDue bool }
	// Contradicted says that an event of [Streaming] can't come from a server that keeps the rules about versions.
	// From is the version up to which everything has been delivered.
	Contradicted struct {
		From  string
		Cause error
	}
	// Continues says that a watch goes on where it began: the first Frame has arrived and is given next, or nothing for
	// so long that no error follows.
	Continues struct{}
	// Closed says that the connection ended: how long After it was opened, and with which error of the server, if any.
	Closed struct {
		After   time.Duration
		Planned bool // it ended when the server had been asked to end it
		Cause   Failure
	}
	// Elapsed says that the wait of [Waiting] is over, or that a [Streaming] that is doubted reads a list now.
	Elapsed struct{}
	// GaveUp says that requests have failed for longer than the caller wants to retry them.
	GaveUp struct{ After time.Duration }
)

func (Page) input()         {}
func (Opened) input()       {}
func (Failed) input()       {}
func (Frame) input()        {}
func (Silent) input()       {}
func (Contradicted) input() {}
func (Continues) input()    {}
func (Closed) input()       {}
func (Elapsed) input()      {}
func (GaveUp) input()       {}

// FrameKind says what a Frame is about.
type FrameKind int

const (
	AddedFrame    FrameKind = iota
	ChangedFrame            // MODIFIED or DELETED
	BookmarkFrame           // BOOKMARK
	MarkerFrame             // the BOOKMARK that ends the initial events
	SkippedFrame            // stands for skipped events
)

func (k FrameKind) isBookmark() bool { return k == BookmarkFrame || k == MarkerFrame }

func (k FrameKind) isOfObject() bool { return k == AddedFrame || k == ChangedFrame }

// Outputs is what the driver does on the way to the next State: what is set, in the order of the fields. The zero
// Outputs is nothing.
type Outputs struct {
	// NoInitialEvents is why the server seems to have no streaming lists. The driver remembers that for later runs.
	NoInitialEvents error
	// Gap is emitted as GAP, unless it is zero.
	Gap EmitGap
	// BeginSnapshot forgets which objects an earlier snapshot had that broke off.
	BeginSnapshot bool
	// Listed says what becomes of the objects of the page, or of the initial event.
	Listed Listed
	// EndSnapshot says what becomes of the objects that the snapshot did not have.
	EndSnapshot Ending
	// Event says what becomes of the event.
	Event EmitEvent
	// Reached is emitted as SYNCED or BOOKMARK.
	Reached Reached
}

// Gap is a break in the sequence.
type Gap struct {
	Reason Reason
	From   string // resourceVersion up to which everything has been delivered
}

// Reason is the cause of a Gap.
type Reason string

// The reasons are documented in package stream.
const (
	GapExpired     Reason = "expired"
	GapRewound     Reason = "rewound"
	GapFuture      Reason = "future"
	GapPoison      Reason = "poison"
	GapUnordered   Reason = "unordered"
	GapUnversioned Reason = "unversioned"
	GapRestarted   Reason = "restarted"
	GapScope       Reason = "scope"
)

// EmitGap is a GAP to emit. To is the version of the snapshot that follows, if it is known. If Reused, versions may
// mean other states than before.
type EmitGap struct {
	Gap         Gap
	To          string
	HistoryLost bool
	Reused      bool
}

// Listed says what becomes of objects of a snapshot. If Quiet, they are only entered into the index. If Since is set,
// so are those that are unknown to the index and not newer than this.
type Listed struct {
	Fate  Fate
	Quiet bool
	Since string
}

// Fate says when objects of a snapshot are delivered.
type Fate int

const (
	NoneListed Fate = iota
	// Retain keeps the initial event until Deliver, or until the objects of another list or page replace it.
	Retain
	// Gather delivers the initial event now or with later ones, at the latest with Deliver.
	Gather
	// Deliver delivers the page, or the initial events that were retained or gathered.
	Deliver
)

// Ending says what becomes of the objects in the index that a snapshot did not have.
type Ending int

const (
	NotEnded      Ending = iota
	EmitDeleted          // a DELETED is emitted for each
	OnlyForgotten        // they are removed from the index
)

// EmitEvent says what becomes of an event of [Streaming].
type EmitEvent struct {
	Emit    bool   // emit it, if the index shows that it is news
	Version string // if not empty, everything up to here has then been delivered
	Replay  bool   // it is not newer than what was delivered
	Partial bool   // the index may lack the object
	Exists  bool   // ADDED may say only that the object exists: the watch begins with what does
}

// Reached says that everything up to Version has been delivered.
type Reached struct {
	As      Milestone
	Version string
}

// Milestone is the event that a Reached is emitted as.
type Milestone int

const (
	NoMilestone   Milestone = iota
	Synced                  // SYNCED
	Bookmark                // BOOKMARK
	BookmarkAgain           // the same, at a version that an event, a snapshot or another bookmark has reached before
)
