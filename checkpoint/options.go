package checkpoint

import (
	"cmp"
	"fmt"
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
	// NoWriteAhead delivers new objects before the Store has an entry of them. Without
	// it every ADDED waits for a commit (those of a page, or that came together, for
	// one), so that every removal is reported, whenever the program is killed. With it
	// the end of an object that was delivered after the last commit, and is gone before
	// the next run, and from the server's history as well, is not; the GAP says so then
	// (HistoryLost), unless the last run ended with Close and everything acked. A Store
	// that keeps no objects (package configmap) is used like that in any case. Where a
	// sequence begins Now, or After a version, nothing is written before its first event
	// is acked.
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

// MismatchError says that what is kept under a key is of something else than what
// is to go on from there.
type MismatchError struct {
	Key string
	// Field is what differs: cluster, resource, namespaces, label selector, field
	// selector or index.
	Field         string
	Saved, Wanted string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("the checkpoint %q is of %s %s, not %s: take another key or store for this, or reset it",
		e.Key, e.Field, orNone(e.Saved), orNone(e.Wanted))
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return fmt.Sprintf("%q", s)
}

// InUseError says that another sequence is being told under the key.
type InUseError struct{ Key string }

func (e *InUseError) Error() string {
	return fmt.Sprintf("the checkpoint %q is in use by another stream: give each stream a key of its own (stream.Options.CheckpointKey)", e.Key)
}

// KeyError says that a key is none.
type KeyError struct{ Key string }

func (e *KeyError) Error() string {
	return fmt.Sprintf("%q is no key of a checkpoint: it must be 1 to %d letters, digits, '-', '_' or '.'", e.Key, maxKey)
}

// OptionsError says that Options can't be used.
type OptionsError struct{ Option, Reason string }

func (e *OptionsError) Error() string { return fmt.Sprintf("checkpoint: %s: %s", e.Option, e.Reason) }

// CorruptError says that what is in a store can't be read. Nothing has been
// changed in it.
type CorruptError struct {
	Store string // the file's path, or where else it is
	Err   error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s can't be read as a checkpoint: %v: put back a copy of it, or move it away to begin anew", e.Store, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// FormatError says that a store was written by another version of this library.
type FormatError struct {
	Store string
	// Format is what it says of itself, Known the newest that can be read.
	Format, Known int
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s has format %d, and this version reads up to %d: use the version that wrote it, or a newer one", e.Store, e.Format, e.Known)
}

// LockedError says that another process has a store open.
type LockedError struct {
	Store  string
	Holder string // who that is; empty if it is not known
}

func (e *LockedError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "another process"
	}
	return fmt.Sprintf("%s is in use by %s: end that first, or take another one", e.Store, holder)
}

// FencedError says that another owner has taken over a store, so that what this
// one has to say is no longer wanted. It is final: nothing more is committed.
type FencedError struct {
	Store  string
	Holder string // who took it over; empty if it is gone altogether
}

func (e *FencedError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("%s is gone: somebody has deleted it, and this process commits no more; start it again to begin anew", e.Store)
	}
	return fmt.Sprintf("%s has been taken over by %s: this process commits no more, and should end", e.Store, e.Holder)
}

// CommitError says that acks have not been committed. What they are of comes
// again in the next run.
type CommitError struct {
	Err error
	// Attempts have failed in a row. NextTry is zero if there will be none.
	Attempts int
	NextTry  time.Time
}

func (e *CommitError) Error() string { return fmt.Sprintf("checkpoints can't be committed: %v", e.Err) }

func (e *CommitError) Unwrap() error { return e.Err }
