package informer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Option changes what NewSharedIndexInformer and package factory return. The zero Option changes nothing.
type Option struct{ compact bool }

// Compact makes an informer keep its objects packed, as [NewCompact] says.
func Compact() Option { return Option{compact: true} }

// NewSharedIndexInformer returns client-go's informer, fed by s. Its objects are *unstructured.Unstructured, or what
// SetTransform makes of them. A deletion that the Stream found by comparing hands OnDelete the last state that the
// informer delivered. If a run ends with an error, the informer reads everything again, after a wait.
//
// It returns an [*stream.OptionsError] if s was not made with [stream.New], or if ResyncPeriod is negative. While the
// informer runs, s must have no other run.
func NewSharedIndexInformer(s *stream.Stream, o cache.SharedIndexInformerOptions,
	opts ...Option) (cache.SharedIndexInformer, error) {
	_, _, err := s.Watched(friend.Access{})
	if err = cmp.Or(invalid.Negative("ResyncPeriod", o.ResyncPeriod), err); err != nil {
		return nil, err
	}
	l := NewListerWatcher(s)
	l.states = &states{objects: map[identity]any{}, deleted: map[*unstructured.Unstructured]bool{}}
	o.ObjectDescription = cmp.Or(o.ObjectDescription, s.Resource().String())
	client := func(indexers cache.Indexers) cache.SharedIndexInformer {
		o.Indexers = indexers
		return cache.NewSharedIndexInformerWithOptions(informerSource{l}, &unstructured.Unstructured{}, o)
	}
	i := &informer{source: l}
	if slices.Contains(opts, Compact()) {
		c := newCompact(newPacker(), o.Indexers, client)
		i.SharedIndexInformer, i.setTransform = c, c.packer.setTransform
		i.queue = c.SharedIndexInformer
		l.states.transform = c.packer.transformed
	} else {
		if o.Indexers == nil {
			o.Indexers = cache.Indexers{} // AddIndexers writes to it
		}
		i.SharedIndexInformer, i.setTransform = client(o.Indexers), l.states.setTransform
		i.queue = i.SharedIndexInformer
	}
	_ = i.SetTransform(nil) // it fails only once the informer has started
	return i, nil
}

// informerSource makes a reflector list and then watch. A List needs one run even if it fails, and its objects need no
// second transform.
type informerSource struct {
	*ListerWatcher // for its methods
}

// IsWatchListSemanticsUnSupported is the method by which client-go recognizes a source without streaming lists.
func (informerSource) IsWatchListSemanticsUnSupported() bool { return true }

// informer adds the last states and the end of the run to client-go's informer.
type informer struct {
	cache.SharedIndexInformer
	source       *ListerWatcher
	queue        cache.SharedIndexInformer // client-go's: it transforms what enters its queue
	setTransform func(cache.TransformFunc)
	ran          atomic.Bool
}

// SetTransform sets a function that is called once for each object, except those of inferred deletions. See the
// package's comment.
func (i *informer) SetTransform(f cache.TransformFunc) error {
	if err := i.queue.SetTransform(i.source.states.transformed); err != nil {
		return err
	}
	i.setTransform(f)
	return nil
}

// Run is RunWithContext with a channel.
func (i *informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext returns when the informer and the run of its Stream have ended.
func (i *informer) RunWithContext(ctx context.Context) {
	if i.ran.CompareAndSwap(false, true) {
		defer i.source.end()
	}
	i.SharedIndexInformer.RunWithContext(ctx)
}

// states holds the last state of each object that has entered the informer's queue: the pointers that the indexer has,
// or will have. client-go calls transformed, its TransformFunc, for each object that enters the queue, in the goroutine
// of the reflector. The objects of a list have been transformed before, one by one as they arrived.
type states struct {
	mu        sync.Mutex
	transform cache.TransformFunc // may be nil
	objects   map[identity]any
	deleted   map[*unstructured.Unstructured]bool // of DELETED events on their way to the queue: true if inferred
}

func (s *states) setTransform(f cache.TransformFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.transform = f
}

// deleting announces the object of a DELETED event.
func (s *states) deleting(o *unstructured.Unstructured, inferred bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted[o] = inferred
}

// errNeverHad is logged by client-go, which then drops the deletion.
var errNeverHad = errors.New("informer: the deleted object was never stored, because the transform failed for it")

// transformed returns what enters the queue instead of obj: for an inferred DELETED the last state, for an item of a
// list its state, else what the informer's transform makes of obj. If the transform fails, obj is not queued, but a
// DELETED is, with the last state.
func (s *states) transformed(obj any) (any, error) {
	if i, ok := obj.(*item); ok {
		return i.state, nil
	}
	o, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil // what a reflector with this example object never hands on
	}
	id := identityOf(o)
	s.mu.Lock()
	last := s.objects[id]
	inferred, isDeleted := s.deleted[o]
	if isDeleted {
		delete(s.deleted, o)
		delete(s.objects, id)
	}
	s.mu.Unlock()
	switch {
	case inferred && last != nil:
		return last, nil
	case inferred:
		return nil, errNeverHad
	}
	state, err := s.stateOf(o)
	switch {
	case err != nil && isDeleted && last != nil:
		return last, nil
	case err == nil && !isDeleted:
		s.mu.Lock()
		s.objects[id] = state
		s.mu.Unlock()
	}
	return state, err
}

// stateOf returns what the informer's transform makes of o.
func (s *states) stateOf(o *unstructured.Unstructured) (any, error) {
	s.mu.Lock()
	transform := s.transform
	s.mu.Unlock()
	if transform == nil {
		return o, nil
	}
	return transform(o)
}

// names returns the names of the objects.
func (s *states) names() map[types.NamespacedName]identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make(map[types.NamespacedName]identity, len(s.objects))
	for id, state := range s.objects {
		if o, err := meta.Accessor(state); err == nil {
			names[nameOf(o)] = id
		}
	}
	return names
}

// replace makes the listed states the last ones, because the list replaces all objects of the informer's store.
func (s *states) replace(listed map[identity]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects = listed
	clear(s.deleted)
}
