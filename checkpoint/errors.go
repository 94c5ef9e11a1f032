package checkpoint

import (
	"fmt"
	"time"
)

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
