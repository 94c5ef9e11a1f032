// Package host has what packages that run Streams for their callers, such as mux and store, pass to one run beyond
// stream.Run, and what they attach to its events.
package host

import (
	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/acks"
)

// Run is what a host passes to one run of a Stream. The zero value changes nothing.
type Run struct {
	// Start replaces stream.Run.Start: the run resumes from the position, or reads a snapshot if that is nil. It is
	// called once, at the beginning, so that the caller need not keep a position that the Stream has taken over. With
	// a checkpoint the run begins where that says in any case.
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
	// Bookmarks delivers BOOKMARK events even if stream.Run.Bookmarks is false, and also those that do not advance
	// the version: the last event may have been of an object that the Stream does not select.
	Bookmarks bool
	// FailOnLoss is stream.Run.FailOnGap for a GAP with HistoryLost. The run ends as soon as there is a gap, even if no
	// snapshot can be read, and so no GAP delivered.
	FailOnLoss bool
	// Holder is who runs the Stream, if it keeps events for its loop from one run to the next. See Holder.
	Holder *Holder
}

// Holder is who holds events that a Stream has delivered and that no loop has received yet. The Stream's position is
// after these events, so only their Holder may resume from it. Holders are compared by identity.
type Holder struct{ _ byte }

// Nobody is the Holder of events that are lost: nobody may resume after them.
var Nobody = &Holder{}

// Envelope is what packages of this module attach to an event.
type Envelope struct {
	Mark      *acks.Mark // nil without a checkpoint
	Source    string     // in a Mux, the key of the source
	Coalesced int        // in a Mux with Latest, how many other events of the object this one stands for
	Unsynced  bool       // of SYNCED from a Mux: another one of its sources is not synced
	Prefix    int32      // how many bytes of Source are the prefix of a follower
}
