package stream

import "time"

// input is one of page, opened, frame, silent, closed, failed, elapsed and
// gaveUp.
type input interface{ isInput() }

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

func (page) isInput()    {}
func (opened) isInput()  {}
func (frame) isInput()   {}
func (silent) isInput()  {}
func (closed) isInput()  {}
func (failed) isInput()  {}
func (elapsed) isInput() {}
func (gaveUp) isInput()  {}

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
type output interface{ isOutput() }

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
	endList struct {
		quiet bool
		rv    string // of the snapshot
	}
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

func (tellGap) isOutput()      {}
func (beginList) isOutput()    {}
func (tellPage) isOutput()     {}
func (tellInitial) isOutput()  {}
func (keepInitial) isOutput()  {}
func (endList) isOutput()      {}
func (tellSynced) isOutput()   {}
func (tellFrame) isOutput()    {}
func (tellBookmark) isOutput() {}
func (noInitial) isOutput()    {}
