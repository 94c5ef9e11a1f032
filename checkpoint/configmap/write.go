package configmap

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

// write makes next what is in the ConfigMap, and in memory. It is the caller's
// turn. A key that is deleted is not in next.
func (s *Store) write(ctx context.Context, next map[string]*entry, deleted string) error {
	for key := range next {
		s.known[key] = true
	}
	for try := 1; ; try++ {
		o, leftOut, err := s.build(next, deleted)
		if err != nil {
			return s.notWritten(err)
		}
		o, err = s.client.Update(ctx, o, metav1.UpdateOptions{})
		switch {
		case err == nil:
			s.done(next, leftOut, deleted)
			_ = s.see(o) // if it can't be read, the next write comes too late, and finds out why
			return nil
		case s.isGone(err):
			return s.fence("")
		case !apierrors.IsConflict(err):
			return s.notWritten(err)
		case try == maxTries:
			return s.notWritten(fmt.Errorf("others were faster %d times: %w", try, err))
		}
		if err := s.reread(ctx); err != nil {
			return err
		}
	}
}

func (s *Store) notWritten(err error) error { return fmt.Errorf("%s can't be written: %w", s, err) }

// build returns the ConfigMap with next in it, to be written over that which was
// seen last and no other.
func (s *Store) build(next map[string]*entry, deleted string) (o *unstructured.Unstructured, leftOut []string, err error) {
	c := s.content.clone()
	for key := range s.known {
		c.forget(key)
	}
	if deleted != "" { // it may be one that can't be read
		c.forget(deleted)
	}
	s.mark(c)
	if leftOut, err = c.add(next, s.options.MaxBytes); err != nil {
		return nil, nil, err
	}
	o = s.base.DeepCopy()
	c.into(o)
	return o, leftOut, nil
}

// mark says in c whose it is.
func (s *Store) mark(c content) {
	c.data[formatKey] = fmt.Sprint(format)
	c.data[ownerKey] = s.owner.text()
}

func (s *Store) done(next map[string]*entry, leftOut []string, deleted string) {
	clear(s.known)
	for key := range next {
		s.known[key] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries, s.leftOut = next, leftOut
	delete(s.broken, deleted)
}

// reread finds out why a write came too late. If nobody else has claimed the
// ConfigMap, it can be tried again: somebody has put a label on it, or a write of
// this Store got through whose answer did not.
func (s *Store) reread(ctx context.Context) error {
	o, err := s.client.Get(ctx, s.name, metav1.GetOptions{})
	if s.isGone(err) {
		return s.fence("")
	}
	if err != nil {
		return s.notWritten(err)
	}
	data, _, err := unstructured.NestedStringMap(o.Object, "data")
	if err != nil {
		return s.notWritten(err)
	}
	now, err := readOwner(data[ownerKey])
	ours := err == nil && now.ID == s.owner.ID
	switch {
	case !ours && older(o, s.base):
		return s.notWritten(fmt.Errorf("the server shows it as it was when it was claimed by %s: it lags behind, or has been restored", now.name()))
	case !ours:
		return s.fence(now.name())
	case o.GetUID() != s.base.GetUID():
		return s.fence("") // a copy that somebody has put back
	}
	if err := mutable(o); err != nil {
		return s.notWritten(err)
	}
	return s.see(o)
}

// older says whether a is known to be from before b.
func older(a, b *unstructured.Unstructured) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}

// see takes a ConfigMap as the one to be written over next.
func (s *Store) see(o *unstructured.Unstructured) error {
	c, err := contentOf(o)
	if err != nil {
		return s.notWritten(err)
	}
	content{}.into(o)
	s.base, s.content = o, c
	return nil
}

// fence ends all commits. An empty holder means that the ConfigMap is gone.
func (s *Store) fence(holder string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fenced = &checkpoint.FencedError{Store: s.String(), Holder: holder}
	return s.fenced
}

// isGone says whether the server says that there is no such ConfigMap. A 404 that
// does not name it is about something else, or from a proxy, and not taken for that.
func (s *Store) isGone(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsNotFound(err) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == configMaps.Resource && details.Name == s.name
}
