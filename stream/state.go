package stream

import (
	"time"
)

// The protocol is in the files state.go (its states, inputs and outputs), step.go and
// step_*.go (which request follows which answer, and what is delivered when). It does
// no I/O, reads no clock and sees no object. A state says what the driver (lane.go) does next; what came of
// it is the next input.

// state is one of listing, connecting, replaying, streaming, probing, waiting
// and stopped, which has no memory.
type state interface{ recall() (m memory, ok bool) }

type (
	// listing reads the list, a page at a time. What is on the pages is told as
	// differences to the index, so a list may begin again at any point.
	listing struct {
		memory
		tokens []string // of the pages after the first; the last one is to be read
		list   string   // resourceVersion of the pages read so far
		tries  int      // of this page that failed
		vacant int      // pages in a row
	}
	// connecting opens a watch: at rv, or, if initial, one that begins with a
	// snapshot (a streaming list, KEP-3157).
	connecting struct {
		memory
		initial bool
		// owed: SYNCED is told once the watch is open. Nobody need hear that all is
		// well before it is known that it can be watched. And client-go's fakes
		// remember no deletions: what a test does on SYNCED must find the watch open.
		owed bool
	}
	// replaying receives the initial events of a watch up to the bookmark that ends
	// them. If anything was told before, they are held until that has shown that they
	// are no state of the past.
	replaying struct {
		memory
		hold bool
	}
	// streaming receives events; everything up to rv has been told.
	streaming struct {
		memory
		frames      bool // this connection has sent something
		unversioned bool // ... without a resourceVersion, so rv is stale
	}
	// probing reads a list of one object, to learn whether the watch at rv can go
	// on: whether the server answers, may be asked, and has not gone back in time.
	probing struct {
		memory
		owed    bool // as in connecting
		stalled bool // the watch before it fell silent
	}
	// waiting lets time pass before next.
	waiting struct {
		attempt int           // 1 is the first; more wait longer
		atLeast time.Duration // as the server asked (Retry-After)
		cause   error
		next    state
	}
	// stopped is the end. err is for the caller.
	stopped struct{ err error }
)

// memory is what outlives a change of state.
type memory struct {
	rules
	rv       string // everything up to here has been told
	synced   bool   // SYNCED has been told
	current  bool   // ... and there was no gap since
	gap      *gap   // found, not told yet: its To is that of the snapshot to come
	begun    bool   // a snapshot has been told in part
	floor    string // the version of that snapshot, as far as it is known
	since    string // with partial: what is not newer may have been known at the gap
	failures int    // since a connection last was healthy
	relists  int    // likewise
	empty    int    // connections in a row that closed soon and without a frame
	poison   int    // connections in a row that ended at what can't be read, at rv
	behind   int    // answers in a row that were older than rv
	initials int    // streaming lists in a row that broke off
	suspect  bool   // the last one fell silent
}

func (m memory) recall() (memory, bool)  { return m, true }
func (s waiting) recall() (memory, bool) { return s.next.recall() }
func (stopped) recall() (memory, bool)   { return memory{}, false }

// rules are the options that the protocol heeds, and what is known of the server.
type rules struct {
	fail    bool // a gap ends the sequence
	lossy   bool // there is no index
	partial bool // the index lacks what existed before the start at a version
	unclean bool // more may have been delivered than the index knows
	quiet   bool // the first snapshot is not told
	until   End  // when the sequence ends by itself
	wanted  bool // streaming lists are wanted
	initial bool // ... and not known to be missing
	blind   bool // no probing at all: client-go's fakes
}

// gap is one that was found.
type gap struct {
	reason GapReason
	from   string
}

// input is one of page, opened, frame, silent, closed, failed, elapsed and
// gaveUp.
type input any

type (
	// page is an answer to a list or a probe. A vacant one holds nothing that the list
	// has not had before.
	page struct {
		rv, token string
		vacant    bool
	}
	// opened: the server has accepted the watch.
	opened struct{}
	// frame is an event of the server about an object, or a bookmark.
	frame struct {
		kind frameKind
		rv   string
	}
	// silent: nothing has come for so long that the connection may be dead.
	silent struct{}
	// closed: the connection has ended, so long after it was opened, with the
	// error the server sent in it, if any.
	closed struct {
		after   time.Duration
		planned bool // at the time the server was asked to end it
		err     error
	}
	// failed: the list, the probe or the opening of the watch was answered with an
	// error.
	failed struct{ err error }
	// elapsed: the wait is over.
	elapsed struct{}
	// gaveUp: it has been failing for longer than the caller wants to wait.
	gaveUp struct{ after time.Duration }
)

type frameKind int

const (
	addedFrame    frameKind = iota
	changedFrame            // MODIFIED or DELETED
	bookmarkFrame           // BOOKMARK
	markerFrame             // the BOOKMARK that ends the initial events
	passedFrame             // events of which there is nothing to tell
)

func (k frameKind) isBookmark() bool { return k == bookmarkFrame || k == markerFrame }

// isOfObject says whether the frame has an object to tell of.
func (k frameKind) isOfObject() bool { return k == addedFrame || k == changedFrame }

// output is something to tell, or to remember, in order.
type output any

type (
	// tellGap begins a gap.
	tellGap struct {
		gap
		to   string
		lost bool
	}
	// beginList forgets which objects were seen by a snapshot that was broken off.
	beginList struct{}
	// tellPage tells what the page has that is new or changed.
	tellPage struct{ snapshot }
	// tellInitial tells the initial event likewise.
	tellInitial struct{ snapshot }
	// keepInitial keeps it, to be told as a page.
	keepInitial struct{}
	// endList tells what the snapshot did not have as deleted, or if quiet forgets it.
	endList struct{ quiet bool }
	// tellSynced tells that all there was at rv has been told.
	tellSynced struct{ rv string }
	// tellFrame tells the event. With it everything up to rv has been told, unless
	// that is empty. An old one, at or before what has been told, is a replay, unless
	// the index knows better.
	tellFrame struct {
		rv           string
		old, partial bool
	}
	// tellBookmark tells that everything up to rv has been told.
	tellBookmark struct{ rv string }
	// noInitial remembers that the server has no streaming lists.
	noInitial struct{ cause error }
)

// snapshot says how its objects are to be told.
type snapshot struct {
	quiet bool   // not at all
	since string // those that are not known and not newer than this, not at all
}
