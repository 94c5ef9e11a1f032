package checkpoint

import (
	"cmp"
	"fmt"
)

// MismatchError means that a key's checkpoint belongs to another Stream than the one that wants to resume from it.
// Options.Reset discards such a checkpoint.
type MismatchError struct {
	Key string
	// Field is what differs: cluster, resource, namespaces, label selector, field selector or shard.
	Field         string
	Saved, Wanted string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("checkpoint %q is for %s %s, not %s: use another key or store, or reset the checkpoint", e.Key,
		e.Field, orNone(e.Saved), orNone(e.Wanted))
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return fmt.Sprintf("%q", s)
}

// CorruptError means that the contents of a Store are damaged, do not come from this library, or were written by a
// version of it that uses another format. The Store has not changed them.
type CorruptError struct {
	Store string // a file's path, or the name of a ConfigMap
	// Older and Newer mean that the Store has an older or a newer format than this version of the library reads. It is
	// not damaged: the version that wrote it can read it. At most one of them is set.
	Older, Newer bool
	Err          error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("can't read checkpoints from %s: %v", e.Store, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// LockedError means that another process has the Store open.
type LockedError struct {
	Store  string
	Holder string // the other process, at most 1 KiB of printable text; empty if unknown
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is in use by %s: end that process first, or use another store",
		e.Store, cmp.Or(e.Holder, "another process"))
}

// FencedError means that another process has taken over the Store, or that the Store has been deleted. It is final: the
// Tracker commits nothing more.
type FencedError struct {
	Store  string
	Holder string // the process that took over, as in LockedError; empty if the Store is gone
}

func (e *FencedError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("%s is gone: this process can't commit; restart it to start from the beginning", e.Store)
	}
	return fmt.Sprintf("%s has been taken over by %s: this process can't commit, and should end", e.Store, e.Holder)
}
