package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

// Store keeps checkpoints, each under a key. One Tracker uses it, one call at a
// time.
//
// A Store may lose the last commits: the events come again. (One thing does not: the
// end of an object that was delivered after the commit that is left, and is gone from
// the server and its history. So a commit that is said to be done should be on the
// disk.) It must never return a mixture of two: what Load returns was one commit's
// outcome. What can't be read is an error, and is never taken for nothing.
//
// A Store that keeps no objects has a method PositionsOnly(), which is never called,
// and Load returns Partial positions. New objects are not written ahead to it.
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
	// Put are entries that are new or have changed, Gone those that are no more. There
	// is one entry of each ID, and no ID is in both.
	Put  []Object
	Gone []ID
}

// onto returns c as it is with d, which may be the first of its key.
func (d Delta) onto(c *Checkpoint) *Checkpoint {
	m := NewMemory()
	if c != nil {
		_ = m.Commit(context.Background(), []Delta{{Key: d.Key, Put: c.Position.Objects}})
	}
	_ = m.Commit(context.Background(), []Delta{d})
	merged, _ := m.Load(context.Background(), d.Key)
	return merged
}

// Memory is a Store for tests: it keeps what it is told until it is forgotten
// with the program. After Close it commits nothing, and can still be loaded from.
type Memory struct {
	mu     sync.Mutex
	saved  map[string]memory
	closed bool
}

type memory struct {
	checkpoint Checkpoint // without objects
	objects    map[ID]Object
}

// NewMemory returns an empty one.
func NewMemory() *Memory { return &Memory{saved: map[string]memory{}} }

// Keys returns those that something is kept under.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.saved))
}

func (m *Memory) Load(_ context.Context, key string) (*Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.saved[key]
	if !ok {
		return nil, nil
	}
	c := s.checkpoint
	c.Position.ResourceVersions = maps.Clone(c.Position.ResourceVersions)
	c.Position.Objects = slices.SortedFunc(maps.Values(s.objects), Object.compare)
	return &c, nil
}

func (m *Memory) Commit(_ context.Context, deltas []Delta) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("checkpoint: the Memory: %w", os.ErrClosed)
	}
	for _, d := range deltas {
		s := m.saved[d.Key]
		if s.objects == nil || d.Reset {
			s.objects = map[ID]Object{}
		}
		s.checkpoint = Checkpoint{Identity: d.Identity, Committed: time.Now(), Position: Position{
			ResourceVersions: maps.Clone(d.ResourceVersions), Partial: d.Partial, Rewound: d.Rewound, Unclean: d.Unclean,
		}}
		for _, o := range d.Put {
			s.objects[o.ID()] = o
		}
		for _, id := range d.Gone {
			delete(s.objects, id)
		}
		m.saved[d.Key] = s
	}
	return nil
}

func (m *Memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.saved, key)
	return nil
}

func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
