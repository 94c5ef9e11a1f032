package configmap

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// maxTries is how often a write is tried that others get ahead of.
const maxTries = 8

// Open claims a ConfigMap, which is created if it isn't there, and reads it.
// Whoever had it open commits no more. It returns a *checkpoint.OptionsError if
// opts are none; they are copied. It returns a *checkpoint.CorruptError if the
// ConfigMap holds something else, and a *checkpoint.FormatError if a newer version
// has written it; nothing is changed in it then. A key that can't be read is no
// such error: Load tells of it. After any other error it may have been claimed: open
// it again.
func Open(ctx context.Context, client dynamic.Interface, namespace, name string, opts *Options) (*Store, error) {
	o, err := opts.check()
	switch {
	case err != nil:
		return nil, err
	case namespace == "":
		return nil, &checkpoint.OptionsError{Option: "namespace", Reason: "give that of the ConfigMap, in a Pod usually its own"}
	case name == "":
		return nil, &checkpoint.OptionsError{Option: "name", Reason: "give that of the ConfigMap"}
	}
	s := &Store{
		client: client.Resource(configMaps).Namespace(namespace), namespace: namespace, name: name,
		options: o,
		owner:   owner{ID: string(uuid.NewUUID()), Holder: o.Holder, Since: time.Now().UTC()},
		turn:    make(chan struct{}, 1),
	}
	for range maxTries {
		claimed, err := s.claim(ctx)
		if err != nil {
			return nil, err
		}
		if claimed {
			return s, nil
		}
	}
	return nil, s.notOpened(fmt.Errorf("others were faster %d times: see who changes it all the time", maxTries))
}

// claim makes one attempt. It has not claimed the ConfigMap, without an error, if
// somebody else was faster.
func (s *Store) claim(ctx context.Context) (claimed bool, err error) {
	o, err := s.client.Get(ctx, s.name, metav1.GetOptions{})
	if s.isGone(err) {
		return s.create(ctx)
	}
	if err != nil {
		return false, s.notOpened(err)
	}
	c, err := s.read(o)
	if err != nil {
		return false, err
	}
	s.mark(c)
	c.into(o)
	o, err = s.client.Update(ctx, o, metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err), s.isGone(err):
		return false, nil
	case err != nil:
		return false, s.notOpened(err)
	}
	return true, s.see(o)
}

func (s *Store) notOpened(err error) error { return fmt.Errorf("%s can't be opened: %w", s, err) }

func (s *Store) create(ctx context.Context) (claimed bool, err error) {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetNamespace(s.namespace)
	o.SetName(s.name)
	c := content{data: map[string]string{}}
	s.reset()
	s.mark(c)
	c.into(o)
	o, err = s.client.Create(ctx, o, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return false, nil
	case err != nil:
		return false, s.notOpened(err)
	}
	return true, s.see(o)
}

// read takes the checkpoints from a ConfigMap.
func (s *Store) read(o *unstructured.Unstructured) (content, error) {
	c, err := contentOf(o)
	if err != nil {
		return content{}, &checkpoint.CorruptError{Store: s.String(), Err: err}
	}
	if err := checkFormat(s.String(), c); err != nil {
		return content{}, err
	}
	if text, ok := c.data[ownerKey]; ok {
		if _, err := readOwner(text); err != nil {
			return content{}, &checkpoint.CorruptError{Store: s.String(), Err: err}
		}
	}
	if err := mutable(o); err != nil {
		return content{}, s.notOpened(err)
	}
	s.reset()
	for _, key := range c.keys() {
		e, err := readEntry(key, c.data[checkpointPrefix+key], c.binary[indexPrefix+key])
		if err != nil {
			s.broken[key] = &checkpoint.CorruptError{Store: fmt.Sprintf("%s (key %q)", s, key), Err: err}
		} else {
			s.entries[key], s.known[key] = e, true
		}
	}
	return c, nil
}

// reset forgets what an attempt before this one has read.
func (s *Store) reset() {
	s.entries, s.broken, s.known = map[string]*entry{}, map[string]error{}, map[string]bool{}
}

func mutable(o *unstructured.Unstructured) error {
	if immutable, _, _ := unstructured.NestedBool(o.Object, "immutable"); immutable {
		return errors.New("it is immutable: delete it, or take another name")
	}
	return nil
}
