package stream

import "time"

// Trace has callbacks for metrics and tests. Each may be nil. The Stream waits for them, so they should be quick, and
// they must not call the Stream's methods. If several namespaces are watched, several goroutines call them at once.
type Trace struct {
	// StatusChanged is called with the new Status of a namespace when its State has changed, not if only Cause, Attempt
	// or Synced has.
	StatusChanged func(Status)
	// RequestDone is called when a list page, a probe or the opening of a watch has been answered or has failed. For a
	// page that was read ahead, it is called when the page is used or dropped.
	RequestDone func(Request)
	// FrameReceived is called for each event and bookmark that a watch receives, with its Type, Namespace and
	// ResourceVersion.
	FrameReceived func(Event)
	// WatchClosed is called when a watch has ended: Duration is how long it was open, Objects the number of events and
	// bookmarks, and Err nil if the caller ended it, or the server did without an error. After IdleTimeout it is not
	// nil.
	WatchClosed func(Request)
}

// Request describes a request that was answered, or a watch that has ended.
type Request struct {
	Verb            string // "list", "probe" (a list with the limit 1) or "watch"
	Namespace       string // empty: the whole cluster
	ResourceVersion string // where a watch began
	Continued       bool   // a page after the first
	InitialEvents   bool   // a watch that begins with a snapshot
	Duration        time.Duration
	Objects         int   // on the page, or received by the watch that has ended
	Err             error // nil if the request succeeded
}
