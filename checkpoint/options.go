package checkpoint

import (
	"cmp"
	"log/slog"
	"time"
)

// Options say how a Tracker keeps checkpoints.
type Options struct {
	// Cluster is what the streams watch (stream.ClusterOf finds out). It is required:
	// what was told of one cluster means nothing in another one.
	Cluster Cluster
	// Interval is how long acks may wait for a commit. Zero means 1 s.
	Interval time.Duration
	// Events is how many acked events may wait for a commit. Zero means 1,000. While
	// a commit is under way more of them gather for the next one.
	Events int
	// Timeout is how long a commit may take before it counts as failed. Close may have
	// to wait for two: one that is under way, and its own. Zero means 10 s.
	Timeout time.Duration
	// Reset begins anew where what is kept under a key does not match, instead of
	// ending the sequence with a *MismatchError. What was kept is forgotten with the
	// first commit: deletions in between are not told.
	Reset bool
	// NoWriteAhead tells new objects before the Store knows of them. Without it every
	// ADDED waits for a commit (those of a page, or that came together, for one), so
	// that the end of every object that was ever told is told, whenever the program is
	// killed. With it the end of one that was told after the last commit, and is gone
	// before the next run, and from the server's history as well, is not; the GAP says
	// so then (HistoryLost), unless the last run ended with Close and everything acked.
	// It is for a Store that is slow or dear to write, as a ConfigMap is. (With package
	// file on a fast disk, about 1,000 ADDED/s that come one by one, and 50,000/s that
	// come together: see its BenchmarkNew.) Where a sequence begins Now, or After a
	// version, nothing is written before its first event is acked.
	NoWriteAhead bool
	// Committed, if not nil, is called after each attempt to commit, by no two
	// goroutines at once. It must not call the Tracker, but for a Stream's Status.
	Committed func(CommitInfo)
	// Logger is told of commits that fail (Warn) and of their end (Info). Nil means
	// that nothing is logged.
	Logger *slog.Logger
}

// CommitInfo is what came of an attempt to commit.
type CommitInfo struct {
	Events   int // that were acked since the last commit
	Objects  int // that were written or removed
	Duration time.Duration
	// Err is nil after a success, and a *FencedError if there will be none any more.
	Err error
}

func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	c.Interval = cmp.Or(c.Interval, time.Second)
	c.Events = cmp.Or(c.Events, 1000)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Committed == nil {
		c.Committed = func(CommitInfo) {}
	}
	switch {
	case c.Cluster.isZero():
		return c, &OptionsError{"Cluster", "it must say which cluster is watched (stream.ClusterOf finds out; tests may invent a UID)"}
	case c.Interval < 0:
		return c, &OptionsError{"Interval", "give a positive time, or zero for the default"}
	case c.Events < 0:
		return c, &OptionsError{"Events", "give a positive number, or zero for the default"}
	case c.Timeout < 0:
		return c, &OptionsError{"Timeout", "give a positive time, or zero for the default"}
	}
	return c, nil
}
