package checkpoint

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// Options configure a Tracker.
type Options struct {
	// Cluster is the cluster that the Streams watch. It is required: a checkpoint is valid for one cluster only.
	// gvrwatch.Connection.Cluster returns it; tests may invent a UID.
	Cluster Cluster
	// Reset starts from the beginning where a key's checkpoint does not match, instead of ending the Stream with a
	// *MismatchError. The first commit removes the old checkpoint: deletions since it was written are not reported.
	Reset bool
	// NoWriteAhead delivers a new object before the Store has an entry for it.
	//
	// Without it each ADDED waits for a commit (the objects of a page, and events that arrived together, share one), so
	// that every removal is reported, no matter when the program is killed. With it a removal can be missed if the
	// object was delivered after the last commit before a kill, and the server's history no longer holds the deletion
	// at the next run. Whenever that run can't resume from the history, it delivers a GAP with HistoryLost, unless the
	// run before ended with Close and every event acked.
	//
	// A Store that keeps no objects (package configmap) always works like this. A Stream that starts Now, or After a
	// version, commits nothing before its first SYNCED, and the version of that SYNCED before it is delivered.
	NoWriteAhead bool
	// WaitForCommits lets events wait as long as commits fail, if the next run could miss something without the commit:
	// new objects, SYNCED, GAP after a rewind, and the first live event after the ack of SYNCED. Others are delivered.
	// The server may end a watch that waits for long; then GAP follows. After a final error of the Store (see [Store]),
	// and after Close, a run that would wait ends with an error that wraps the Store's or os.ErrClosed.
	//
	// Without it the Stream goes on, and marks the Store, so that the next run knows (see [Store]).
	WaitForCommits bool

	// Interval is how long acks may wait for a commit. 0 means 1 s.
	Interval time.Duration
	// Events is how many acked events may wait for a commit. 0 means 1,000. While a commit is under way, more may
	// gather for the next one.
	Events int
	// CommitTimeout is how long a commit may take before it counts as failed, and how long marking the Store may take
	// (see [Store]). 0 means 10 s. Close may wait for two commits, one that is under way and its own, and for a mark
	// after each.
	CommitTimeout time.Duration

	// Logger receives failed commits (Warn: the first, the second, the fourth and so on in a row; Error if there will
	// be no other attempt), the first success after them (Info), and the first ack after Close, with the number of
	// events that come again (Warn). Nil disables logging.
	Logger *slog.Logger
}

func (o *Options) check() (Options, error) {
	c := *cmp.Or(o, &Options{})
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.Events = cmp.Or(c.Events, 1000)
	c.CommitTimeout = cmp.Or(c.CommitTimeout, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Cluster == (Cluster{}) {
		return c, invalid.New("checkpoint.Options.Cluster", "", "must be set: gvrwatch.Connection.Cluster returns it")
	}
	return c, cmp.Or(invalid.Negative("checkpoint.Options.Interval", c.Interval),
		invalid.Negative("checkpoint.Options.Events", c.Events),
		invalid.Negative("checkpoint.Options.CommitTimeout", c.CommitTimeout))
}
