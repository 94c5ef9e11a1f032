package checkpoint

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Store keeps checkpoints, each under a key. One Tracker uses it, one call at a
// time.
//
// It may lose the last commits: the events come again. (What does not is the end of
// an object that was told after the commit that is left, and is gone from the server
// and its history: so a commit that is said to be done should be on the disk.) It
// must never return a mixture of two: what Load returns was one commit's outcome.
// What can't be read is an error, and is never taken for nothing.
type Store interface {
	// Load returns what was committed under a key, and nil if nothing was.
	Load(ctx context.Context, key string) (*Checkpoint, error)
	// Commit enters all of the deltas, or none if it returns an error. After an error
	// it is called again with the same changes and more. Two errors are final: a
	// *FencedError, and one that wraps os.ErrClosed.
	Commit(ctx context.Context, deltas []Delta) error
	// Delete forgets what was committed under a key, if anything was.
	Delete(ctx context.Context, key string) error
	// Close releases what the Store holds. It commits nothing.
	Close() error
}

// Checkpoint is what is kept under a key.
type Checkpoint struct {
	Identity Identity
	Position Position
	// Committed is when that was.
	Committed time.Time
}

// Delta is what has changed under a key since the last commit.
type Delta struct {
	Key string
	// Identity, ResourceVersions and the flags replace what was there (see Position).
	Identity                  Identity
	ResourceVersions          map[string]string
	Partial, Rewound, Unclean bool
	// Reset: the objects that were there are forgotten before Put.
	Reset bool
	// Put are objects that are new or have changed, Gone those that are no more. No
	// object is in both.
	Put  []Object
	Gone []types.NamespacedName
	// Told are objects that are Unacked from now on, Settled those that no longer are.
	// They are kept apart from the others, by their IDs. No object is in both.
	Told    []Object
	Settled []ID
}

// onto returns c as it is with d, which may be the first of its key.
func (d Delta) onto(c *Checkpoint) *Checkpoint {
	m := NewMemory()
	if c != nil {
		first := Delta{Key: d.Key}
		for _, o := range c.Position.Objects {
			if o.Unacked {
				first.Told = append(first.Told, o)
			} else {
				first.Put = append(first.Put, o)
			}
		}
		_ = m.Commit(context.Background(), []Delta{first})
	}
	_ = m.Commit(context.Background(), []Delta{d})
	merged, _ := m.Load(context.Background(), d.Key)
	return merged
}
