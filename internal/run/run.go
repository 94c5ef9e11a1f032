// Package run holds what one run over the events of a stream.Stream is given beyond its Options.
// Packages mux and mux/follow use it.
package run

import "github.com/gvrwatch/gvrwatch/checkpoint"

// Options differ from one run to the next. The zero value changes nothing.
type Options struct {
	// Start replaces stream.Options.Start: the run resumes from the position, or reads a snapshot if that is nil.
	// It is called once, at the beginning, so that the caller need not keep a position that the Stream has taken
	// over. With a checkpoint the run begins where that says in any case.
	Start func() *checkpoint.Position
	// Again says that an earlier run has delivered events of this sequence. If this run can't resume, it begins with a
	// snapshot: stream.Now would skip what has happened since, and the version of stream.After may have expired.
	Again bool
	// Lists bounds the number of snapshots read at once, for all runs that share it. Nil means no bound.
	Lists *Lists
	// Namespaces replaces stream.Options.Namespaces and may change during the run. The run may resume from a
	// run that watched other namespaces, or the cluster: what it has no resourceVersion for is compared with
	// what is known (stream.GapScope). Nil means the namespaces of the Options.
	Namespaces *Namespaces
	// Memory is set before an event with an Object is yielded: to about how much memory the Object takes, or to 0 if
	// that has not been counted. Nil means that nobody wants to know.
	Memory *int64
	// Bookmarks delivers BOOKMARK events even if stream.Options.Bookmarks is false, and also those that do not advance
	// the version: the last event may have been of an object that the Stream does not select.
	Bookmarks bool
}
