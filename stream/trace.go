package stream

import "time"

// Trace has callbacks for metrics and tests. Each may be nil. The Stream waits for them, so they should be quick, and
// they must not call the Stream's methods. If several namespaces are watched, several goroutines call them at once.
type Trace struct {
	// StatusChanged is called with the new Status of a namespace when its State has changed.
	StatusChanged func(Status)
	// RequestDone is called when a list page, a probe or the opening of a watch has been answered or has failed. For a
	// page that was read ahead, it is called when the page is used or dropped.
	RequestDone func(Request)
	// FrameReceived is called for each event and bookmark that a watch receives.
	FrameReceived func(Frame)
	// WatchClosed is called when a watch has ended.
	WatchClosed func(WatchEnd)
}

// Request describes a completed request.
type Request struct {
	Verb            string // "list", "probe" (a list with the limit 1) or "watch"
	Namespace       string // empty: the whole cluster
	ResourceVersion string // where a watch began
	Continued       bool   // a page after the first
	InitialEvents   bool   // a watch that begins with a snapshot
	Duration        time.Duration
	Objects         int   // on the page
	Err             error // nil if the request succeeded
}

// Frame describes an event or bookmark that a watch received.
type Frame struct {
	Namespace       string
	Type            Type // ADDED, MODIFIED, DELETED or BOOKMARK
	ResourceVersion string
}

// WatchEnd describes how a watch ended.
type WatchEnd struct {
	Namespace string
	Duration  time.Duration // how long the watch was open
	Frames    int
	Err       error // nil if the caller ended it, or the server did without an error; not nil after IdleTimeout
}

// trace calls f unless it is nil.
func trace[T any](f func(T), with T) {
	if f != nil {
		f(with)
	}
}
