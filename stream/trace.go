package stream

import "time"

// Trace holds functions that are called when something happens in a Stream, for
// metrics and tests. Each may be nil. They are called in the goroutine that does
// the work, which waits for them, so they should be quick and must not call the
// Stream. Where several namespaces are watched they are called from several
// goroutines at once.
type Trace struct {
	// StatusChanged is called when Status.State has changed, with the new Status
	// (that of one namespace).
	StatusChanged func(Status)
	// RequestDone is called when a list page, a probe or the opening of a watch has
	// been answered or has failed; for a page that was read ahead when its turn comes,
	// or when nobody wants it any more.
	RequestDone func(Request)
	// FrameReceived is called for each event and bookmark of a watch.
	FrameReceived func(Frame)
	// WatchClosed is called when a watch has ended.
	WatchClosed func(WatchEnd)
}

// Request is one that was made.
type Request struct {
	Verb            string // "list", "probe" (a list with the limit 1) or "watch"
	Namespace       string // empty: the whole cluster
	ResourceVersion string // that a watch began at
	Continued       bool   // a page after the first
	InitialEvents   bool   // a watch that begins with a snapshot
	Duration        time.Duration
	Objects         int // on the page
	Err             error
}

// Frame is what a watch sent.
type Frame struct {
	Namespace       string
	Type            Type // ADDED, MODIFIED, DELETED or BOOKMARK
	ResourceVersion string
}

// WatchEnd is how a watch ended.
type WatchEnd struct {
	Namespace string
	Duration  time.Duration // that it was open
	Frames    int
	Err       error // that ended it; nil if the server did so without one, or we did
}

// trace calls a function of a Trace, if there is one.
func trace[T any](f func(T), with T) {
	if f != nil {
		f(with)
	}
}
