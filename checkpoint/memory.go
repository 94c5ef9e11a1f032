package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Memory is a Store for tests: it keeps what it is told until it is forgotten
// with the program. After Close it commits nothing, and can still be loaded from.
type Memory struct {
	mu     sync.Mutex
	saved  map[string]memory
	closed bool
}

type memory struct {
	checkpoint Checkpoint // without objects
	objects    map[types.NamespacedName]Object
	unacked    map[ID]Object
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
	c.Position.Objects = append(c.Position.Objects, slices.SortedFunc(maps.Values(s.unacked), Object.compare)...)
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
			s.objects, s.unacked = map[types.NamespacedName]Object{}, map[ID]Object{}
		}
		s.checkpoint = Checkpoint{Identity: d.Identity, Committed: time.Now(), Position: Position{
			ResourceVersions: maps.Clone(d.ResourceVersions), Partial: d.Partial, Rewound: d.Rewound, Unclean: d.Unclean,
		}}
		for _, o := range d.Put {
			s.objects[o.NamespacedName()] = o
		}
		for _, name := range d.Gone {
			delete(s.objects, name)
		}
		for _, o := range d.Told {
			s.unacked[o.ID()] = o
		}
		for _, id := range d.Settled {
			delete(s.unacked, id)
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
