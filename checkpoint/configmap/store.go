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
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// store is a checkpoint.Store in a ConfigMap. Its methods may be called from any goroutine.
type store struct {
	client          dynamic.ResourceInterface
	namespace, name string
	owner           owner

	turn chan struct{}              // held by who writes the ConfigMap; of capacity one
	seen *unstructured.Unstructured // the ConfigMap as seen last, which the next write replaces; needs the turn

	mu        sync.Mutex
	committed map[string]string // by key, as encoded by the last commit that succeeded; replaced, not changed
	final     error             // nothing is written any more
}

var _ checkpoint.Store = (*store)(nil)

// String names the ConfigMap.
func (s *store) String() string { return fmt.Sprintf("ConfigMap %s/%s", s.namespace, s.name) }

// PositionsOnly marks a Store that keeps no objects: a checkpoint.Tracker need not write new ones ahead.
func (s *store) PositionsOnly() {}

// Load returns what was committed, from memory. The Position is always Partial and has no Objects. It returns a
// *checkpoint.CorruptError if what Open found can't be read.
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

// Commit writes the ConfigMap, even if nothing has changed. What the deltas say of objects is ignored. It returns a
// *checkpoint.FencedError once another process owns the ConfigMap or it was deleted, and a *checkpoint.CorruptError for
// a key that can't be read and has not been deleted.
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

// Delete writes the ConfigMap without a key, even if it knows of none: a Commit that failed may have written it.
// Whether the key can be read does not matter.
func (s *store) Delete(ctx context.Context, key string) error {
	return s.change(ctx, func(texts map[string]string) (bool, error) {
		delete(texts, key)
		return true, nil
	})
}

// Close ends commits. It does not wait for one that is under way, and leaves the claim in the ConfigMap: that keeps out
// whoever had it before.
func (s *store) Close() error {
	s.end(fmt.Errorf("%s: %w", s, os.ErrClosed))
	return nil
}

// end makes err what is returned from now on, unless something already is.
func (s *store) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final == nil {
		s.final = err
	}
}

// change waits for its turn, and writes what edit makes of the checkpoints.
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

// write makes texts the checkpoints in the ConfigMap, whatever a write without an answer has made of them.
func (s *store) write(ctx context.Context, texts map[string]string) error {
	for range maxTries {
		o := s.seen.DeepCopy()
		if err := fill(o, texts, s.owner); err != nil {
			return fmt.Errorf("write %s: %w", s, err)
		}
		o, err := s.client.Update(ctx, o, metav1.UpdateOptions{})
		switch {
		case err == nil:
			if o.GetUID() == s.seen.GetUID() { // else the next write conflicts, and finds out why
				s.seen = o
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

// reread finds out why a write conflicted. The write can be tried again if nobody else has claimed the ConfigMap:
// somebody has put a label on it, or an earlier write succeeded without an answer.
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
	order, lagErr := resourceversion.CompareResourceVersion(o.GetResourceVersion(), s.seen.GetResourceVersion())
	ours, holder := err == nil && now.ID == s.owner.ID, cmp.Or(now.Holder, "an unknown owner")
	switch {
	case !ours && lagErr == nil && order < 0:
		return fmt.Errorf("write %s: the server shows an earlier owner, %s: it lags, or was restored", s, holder)
	case !ours:
		return s.fence(holder)
	case o.GetUID() != s.seen.GetUID():
		return s.fence("") // somebody has put back a copy
	}
	s.seen = o
	return nil
}

// fence ends all commits. An empty holder means that the ConfigMap is gone.
func (s *store) fence(holder string) error {
	err := &checkpoint.FencedError{Store: s.String(), Holder: holder}
	s.end(err)
	return err
}

// isGone says whether the server says that there is no such ConfigMap. A 404 that does not name it is about something
// else, or from a proxy, and not taken for that.
func (s *store) isGone(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == configMaps.Resource && details.Name == s.name
}
