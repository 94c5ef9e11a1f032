package configmap

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// maxTries is how often a conflicting write is tried.
const maxTries = 8

var errBusy = fmt.Errorf("%d conflicts with other writers", maxTries)

// Options configure Open.
type Options struct {
	// Holder is the name of this process in the errors of others (checkpoint.FencedError). Empty means the host name
	// (in a container the Pod's name) and the process id.
	Holder string
}

func (o *Options) holder() string {
	if o != nil && o.Holder != "" {
		return o.Holder
	}
	host, _ := os.Hostname()
	return fmt.Sprintf("%s (process %d)", cmp.Or(host, "an unknown host"), os.Getpid())
}

// Open claims a ConfigMap and reads it. It creates the ConfigMap if there is none. A process that had it open can't
// commit any more. opts may be nil.
//
// The Store keeps no objects: its positions are Partial, and it ignores the objects of deltas. Its methods may be
// called from any goroutine. Close does not wait for a commit that is under way, and leaves the claim in the ConfigMap,
// which keeps earlier owners out.
//
// Open returns a [*checkpoint.CorruptError], and changes nothing, if the ConfigMap holds something else or is larger
// than 4 MiB, or has an older or newer format. A single unreadable key is an error of Load, not of Open. After any
// other error the ConfigMap may have been claimed: call Open again.
func Open(
	ctx context.Context, client dynamic.Interface, namespace, name string, opts *Options,
) (checkpoint.Store, error) {
	switch {
	case client == nil:
		return nil, invalid.New("client of the ConfigMap", "", "must not be nil")
	case namespace == "":
		return nil, invalid.New("namespace of the ConfigMap", "", "must not be empty: it is usually that of this Pod")
	case name == "":
		return nil, invalid.New("name of the ConfigMap", "", "must not be empty")
	}
	s := &store{
		client: client.Resource(configMaps).Namespace(namespace), namespace: namespace, name: name,
		owner: owner{ID: string(uuid.NewUUID()), Holder: opts.holder(), Since: time.Now().UTC()},
		turn:  make(chan struct{}, 1),
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
	return nil, fmt.Errorf("open %s: %w", s, errBusy)
}

// claim makes one attempt. It returns false without an error if another write came between.
func (s *store) claim(ctx context.Context) (claimed bool, err error) {
	o, err := s.client.Get(ctx, s.name, metav1.GetOptions{})
	exists := !s.isGone(err)
	if !exists {
		o, err = s.empty(), nil
	}
	if err != nil {
		return false, fmt.Errorf("open %s: %w", s, err)
	}
	data, err := dataOf(o)
	if err != nil {
		return false, &checkpoint.CorruptError{Store: s.String(), Err: err}
	}
	if err := check(s.String(), o, data); err != nil {
		return false, err
	}
	s.committed = checkpointsIn(data)
	if err := fill(o, s.committed, s.owner); err != nil {
		return false, err
	}
	if exists {
		s.seen, err = s.client.Update(ctx, o, metav1.UpdateOptions{})
	} else {
		s.seen, err = s.client.Create(ctx, o, metav1.CreateOptions{})
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), s.isGone(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("open %s: %w", s, err)
	}
	if _, err := dataOf(s.seen); err != nil {
		return false, fmt.Errorf("open %s: the answer to a write: %w", s, err)
	}
	return true, nil
}

func (s *store) empty() *unstructured.Unstructured {
	metadata := map[string]any{"namespace": s.namespace, "name": s.name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
	}}
}
