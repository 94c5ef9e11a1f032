package stream

import "time"

// The protocol is in the files state.go (what it may be doing), message.go (what
// it is told and what it says), step.go and step_*.go (which request follows
// which answer, and what may be told when). It does no I/O, reads no clock and
// sees no object. A state says what the driver (lane.go) does next; what came of
// it is the next input.

// state is one of listing, connecting, replaying, streaming, probing, waiting
// and stopped.
type state interface{ isState() }

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

func (listing) isState()    {}
func (connecting) isState() {}
func (replaying) isState()  {}
func (streaming) isState()  {}
func (probing) isState()    {}
func (waiting) isState()    {}
func (stopped) isState()    {}

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
	covered  string // as in beginning
	failures int    // since a connection last was healthy
	relists  int    // likewise
	empty    int    // connections in a row that closed soon and without a frame
	poison   int    // connections in a row that ended at what can't be read, at rv
	behind   int    // answers in a row that were older than rv
	initials int    // streaming lists in a row that broke off
	suspect  bool   // the last one fell silent
}

// rules are the options that the protocol heeds, and what is known of the server.
type rules struct {
	fail    bool // a gap ends the sequence
	lossy   bool // there is no index
	partial bool // the index lacks what existed before the start at a version
	unsure  bool // more may have been told than the index knows
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
