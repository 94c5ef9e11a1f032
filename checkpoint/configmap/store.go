package configmap

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// Store is a checkpoint.Store in a ConfigMap. Its methods may be called from any
// goroutine. It keeps in memory what is committed, objects whose index does not fit
// among them.
type Store struct {
	client          dynamic.ResourceInterface
	namespace, name string
	options         Options
	owner           owner

	turn chan struct{} // held by who writes the ConfigMap, and what follows; of capacity one
	// As it was seen last.
	base    *unstructured.Unstructured // without its content
	content content
	// known are the keys that the ConfigMap may have from this Store, though entries
	// does not: a write may have got through without an answer.
	known map[string]bool

	mu      sync.Mutex        // held, and the turn, by who changes what follows
	entries map[string]*entry // replaced, not changed
	broken  map[string]error  // keys that can't be read, which are left alone
	leftOut []string
	fenced  error
	closed  bool // needs no turn
}

var _ checkpoint.Store = (*Store)(nil)

// String says which ConfigMap it is.
func (s *Store) String() string { return fmt.Sprintf("ConfigMap %s/%s", s.namespace, s.name) }

// Load returns what was committed, from memory. It returns a
// *checkpoint.CorruptError if what Open found can't be read.
func (s *Store) Load(_ context.Context, key string) (*checkpoint.Checkpoint, error) {
	s.mu.Lock()
	e, err := s.entries[key], s.broken[key]
	s.mu.Unlock()
	if err != nil || e == nil {
		return nil, err
	}
	return e.checkpoint(), nil
}

// LeftOut returns the keys whose index did not fit into the ConfigMap with the last
// commit, sorted.
func (s *Store) LeftOut() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.leftOut)
}

// Commit writes the ConfigMap. It returns a *checkpoint.CorruptError for a key
// that can't be read and has not been deleted. What others have changed meanwhile
// is kept, but for what is of a checkpoint.
func (s *Store) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.release()
	if len(deltas) == 0 {
		return nil
	}
	next, now := maps.Clone(s.entries), time.Now().UTC().Round(0) // as it can be read again
	for _, d := range deltas {
		if err := s.broken[d.Key]; err != nil {
			return err
		}
		next[d.Key] = next[d.Key].with(d, now)
	}
	return s.write(ctx, next, "")
}

// Delete writes the ConfigMap, if the key is in there. That it can't be read does
// not matter.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer s.release()
	if !s.known[key] && s.broken[key] == nil {
		return nil
	}
	next := maps.Clone(s.entries)
	delete(next, key)
	return s.write(ctx, next, key)
}

// Close ends commits. It does not wait for one that is under way, and leaves the
// claim in the ConfigMap: that keeps out whoever had it before.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// take waits for a turn to write, unless nothing may be written any more.
func (s *Store) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.fenced
	if err == nil && s.closed {
		err = fmt.Errorf("%s: %w", s, os.ErrClosed)
	}
	if err != nil {
		s.release()
	}
	return err
}

func (s *Store) release() { <-s.turn }
