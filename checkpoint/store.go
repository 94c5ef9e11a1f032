package checkpoint

import (
	"context"
	"time"
)

// Store keeps checkpoints, each under a key of 1 to 200 letters, digits, '-', '_' or '.', but neither '.' nor '..'. One
// Tracker uses it, and makes one call at a time. In tests, streamtest.CheckStore checks most of what is demanded here.
//
// Load returns the outcome of one commit, never a mixture of two. A checkpoint that can't be read is an error, never a
// missing one.
//
// Each call should return when its context ends. If it does not, the Tracker goes on without it, and calls the Store
// again when it has returned.
//
// Commit should return only when the checkpoint is on disk. A Store that loses its last commits causes repeated events,
// and one kind of loss: the deletion of an object that was delivered after the last surviving commit, if the server's
// history no longer holds it.
//
// A Store that can write a flag where it can't commit has a method MarkUnclean(ctx, true or false) error. A commit that
// fails is followed by MarkUnclean(ctx, true) before anything is delivered without it; a later commit, once it has all
// that was delivered, by MarkUnclean(ctx, false). In between the Store lacks objects that were delivered. If the
// process is killed then, Load in the next one returns Unclean positions, also for a key without a checkpoint (with a
// zero Identity), until a commit replaces them. A Store that wraps another passes the call on. Without the method, or
// if it fails, or if the Store does not answer, the deletion of such an object may be missed silently.
//
// A Store that keeps no objects has a method PositionsOnly(), which is never called. Load then returns Partial
// positions, and the Tracker does not write new objects ahead.
type Store interface {
	// Load returns the checkpoint under a key, or nil if there is none. One without an Identity only says that
	// something may have been delivered under the key. The caller may change what Load returns.
	Load(ctx context.Context, key string) (*Checkpoint, error)
	// Commit writes all of the deltas, or none if it returns an error. After an error the Tracker calls Commit again,
	// with the same changes and later ones, unless the error is final: a *FencedError, or one that wraps os.ErrClosed.
	// When Commit has returned, the caller may change the deltas.
	Commit(ctx context.Context, deltas []Delta) error
	// Delete removes the checkpoint under a key, if there is one.
	Delete(ctx context.Context, key string) error
	// Close releases the Store's resources. It commits nothing. A later Commit is made nevertheless, or returns an
	// error that wraps os.ErrClosed.
	Close() error
}

// Checkpoint is what a Store keeps under a key.
type Checkpoint struct {
	Identity Identity
	Position Position
	// Committed is the time of the commit.
	Committed time.Time
}

// Delta is what has changed under a key since the last commit.
type Delta struct {
	Key string
	// Identity, ResourceVersions and the flags replace those in the Store (see Position).
	Identity                  Identity
	ResourceVersions          map[string]string
	Partial, Rewound, Unclean bool
	// Reset removes the objects in the Store before Put adds others.
	Reset bool
	// Put has the objects that are new or have changed.
	Put []Object
	// Removed has the objects to remove, without their ResourceVersion. Namespace, name and uid identify an object.
	// No object is in both Put and Removed, and none is twice in one of them.
	Removed []Object
}
