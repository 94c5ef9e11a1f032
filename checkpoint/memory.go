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

// Memory is a Store for tests, which keeps checkpoints in memory. The zero Memory is empty and ready for use. After
// Close it commits nothing, and Load still works.
type Memory struct {
	mu     sync.Mutex
	saved  map[string]memory
	closed bool
}

type memory struct {
	checkpoint Checkpoint        // without objects
	objects    map[Object]string // versions, by objects without a version
}

// Keys returns the keys of all checkpoints, sorted.
func (m *Memory) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.saved))
}

// Load implements [Store]. It returns a copy.
func (m *Memory) Load(_ context.Context, key string) (*Checkpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.saved[key]
	if !ok {
		return nil, nil
	}
	c := s.checkpoint
	c.Identity.Namespaces = slices.Clone(c.Identity.Namespaces)
	c.Position.ResourceVersions = maps.Clone(c.Position.ResourceVersions)
	for o, version := range s.objects {
		o.ResourceVersion = version
		c.Position.Objects = append(c.Position.Objects, o)
	}
	slices.SortFunc(c.Position.Objects, Object.compare)
	return &c, nil
}

// Commit implements [Store].
func (m *Memory) Commit(_ context.Context, deltas []Delta) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("commit to checkpoint.Memory: %w", os.ErrClosed)
	}
	if m.saved == nil {
		m.saved = map[string]memory{}
	}
	for _, d := range deltas {
		s := m.saved[d.Key]
		if s.objects == nil || d.Reset {
			s.objects = map[Object]string{}
		}
		d.Identity.Namespaces = slices.Clone(d.Identity.Namespaces)
		s.checkpoint = Checkpoint{Identity: d.Identity, Committed: time.Now(), Position: Position{
			ResourceVersions: maps.Clone(d.ResourceVersions),
			Partial:          d.Partial, Rewound: d.Rewound, Unclean: d.Unclean,
		}}
		for _, o := range d.Put {
			version := o.ResourceVersion
			o.ResourceVersion = ""
			s.objects[o] = version
		}
		for _, o := range d.Removed {
			o.ResourceVersion = ""
			delete(s.objects, o)
		}
		m.saved[d.Key] = s
	}
	return nil
}

// Delete implements [Store].
func (m *Memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.saved, key)
	return nil
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
