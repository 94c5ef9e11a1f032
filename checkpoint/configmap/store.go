package configmap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// store is a checkpoint.Store in a ConfigMap.
type store struct {
	client          dynamic.ResourceInterface
	namespace, name string
	owner           owner

	turn chan struct{}              // held while the ConfigMap is written; capacity one
	seen *unstructured.Unstructured // the ConfigMap as seen last, which the next write replaces; needs the turn

	mu        sync.Mutex
	committed map[string]string // by key, as encoded by the last commit that succeeded; replaced, not changed
	final     error             // if set, nothing more is written
}

// String names the ConfigMap.
func (s *store) String() string { return fmt.Sprintf("ConfigMap %s/%s", s.namespace, s.name) }

// PositionsOnly marks a checkpoint.Store that keeps no objects.
func (s *store) PositionsOnly() {}

// Load returns a checkpoint from memory. It returns a *checkpoint.CorruptError if the one that Open found is
// unreadable.
func (s *store) Load(_ context.Context, key string) (*checkpoint.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(s.committed, key)
}

func (s *store) read(texts map[string]string, key string) (*checkpoint.Checkpoint, error) {
	text, ok := texts[key]
	if !ok {
		return nil, nil
	}
	c, err := decode(text)
	if err != nil {
		return nil, &checkpoint.CorruptError{Store: fmt.Sprintf("%s (key %q)", s, key), Err: err}
	}
	return c, nil
}

// Commit writes the ConfigMap, even if nothing has changed. It returns a *checkpoint.FencedError once another process
// owns the ConfigMap or it was deleted, and a *checkpoint.CorruptError for an unreadable key that was not deleted.
func (s *store) Commit(ctx context.Context, deltas []checkpoint.Delta) error {
	return s.change(ctx, func(texts map[string]string) (write bool, err error) {
		for _, d := range deltas {
			if _, err := s.read(texts, d.Key); err != nil {
				return false, err
			}
			if texts[d.Key], err = encode(d); err != nil {
				return false, err
			}
		}
		return len(deltas) > 0, nil
	})
}

// Delete writes the ConfigMap without a key, even if the key seems to be absent: a Commit that failed may have written
// it. An unreadable key can be deleted.
func (s *store) Delete(ctx context.Context, key string) error {
	return s.change(ctx, func(texts map[string]string) (bool, error) {
		delete(texts, key)
		return true, nil
	})
}

// Close ends commits, as Open documents.
func (s *store) Close() error {
	s.end(fmt.Errorf("%s: %w", s, os.ErrClosed))
	return nil
}

// end makes err the result of later commits, unless there is one already.
func (s *store) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final == nil {
		s.final = err
	}
}

// change waits for its turn, and writes the checkpoints as edit changes them.
func (s *store) change(ctx context.Context, edit func(texts map[string]string) (write bool, err error)) error {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	next, final := maps.Clone(s.committed), s.final
	s.mu.Unlock()
	if final != nil {
		return final
	}
	if write, err := edit(next); !write || err != nil {
		return err
	}
	if err := s.write(ctx, next); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed = next
	return nil
}

// write replaces the checkpoints in the ConfigMap by texts, also if the answer to an earlier write was lost.
func (s *store) write(ctx context.Context, texts map[string]string) error {
	for range maxTries {
		o := s.seen.DeepCopy()
		if err := fill(o, texts, s.owner); err != nil {
			return fmt.Errorf("write %s: %w", s, err)
		}
		o, err := s.client.Update(ctx, o, metav1.UpdateOptions{})
		switch {
		case err == nil:
			if _, err := dataOf(o); err == nil && o.GetUID() == s.seen.GetUID() {
				s.seen = o // else the next write conflicts, and reread finds out why
			}
			return nil
		case s.isGone(err):
			return s.fence("")
		case !apierrors.IsConflict(err):
			return fmt.Errorf("write %s: %w", s, err)
		}
		if err := s.reread(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("write %s: %w", s, errBusy)
}

// reread finds out why a write conflicted. The write can be tried again if no other process has claimed the ConfigMap:
// then somebody has changed a label, for example, or an earlier write succeeded and its answer was lost.
func (s *store) reread(ctx context.Context) error {
	o, err := s.client.Get(ctx, s.name, metav1.GetOptions{})
	if s.isGone(err) {
		return s.fence("")
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", s, err)
	}
	data, err := dataOf(o)
	if err != nil {
		return fmt.Errorf("write %s: %w", s, err)
	}
	now, err := readOwner(data[ownerKey])
	ours, holder := err == nil && now.ID == s.owner.ID, cmp.Or(invalid.Printable(now.Holder), "an unknown owner")
	switch {
	case !ours && protocol.Before(o.GetResourceVersion(), s.seen.GetResourceVersion()):
		return fmt.Errorf("write %s: the server lags, or was restored: it shows an earlier owner, %s", s, holder)
	case !ours:
		return s.fence(holder)
	case o.GetUID() != s.seen.GetUID():
		return s.fence("") // a copy was restored
	}
	s.seen = o
	return nil
}

// fence ends all commits. The holder is empty if the ConfigMap is gone.
func (s *store) fence(holder string) error {
	err := &checkpoint.FencedError{Store: s.String(), Holder: holder}
	s.end(err)
	return err
}

// isGone reports whether the server says that the ConfigMap does not exist. A 404 that does not name it may be about
// another object, or come from a proxy.
func (s *store) isGone(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == configMaps.Resource && details.Name == s.name
}
