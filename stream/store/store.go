package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/gvrwatch/gvrwatch/internal/compact"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Options configure a Store. The zero value is the default.
type Options struct {
	// Indexes has a function for each index, by the name of the index. It returns the values under which [Store.List]
	// finds an object, given ADDED or MODIFIED of it. It must not change the event. The values must depend on the
	// object alone, and are computed once for each event. [stream.Event.Meta] gives it the metadata without decoding a
	// [stream.Raw] object, [stream.Event.Decode] the object. A function that panics ends the run with an error. Each
	// value of each object takes 64 bytes, and its length.
	Indexes map[string]func(stream.Event) []string
	// Compress keeps the objects compressed, with S2 and a dictionary made of some of them. They take about a quarter
	// of the memory, and each read of an object decompresses it.
	Compress bool
}

// Store has the objects of one resource in memory. Its methods may be called from any goroutine.
type Store struct {
	stream  *stream.Stream
	names   []string // of the indexes, in order
	indexes []func(stream.Event) []string
	codec   *compact.Codec
	seed    maphash.Seed
	state   atomic.Pointer[state]
	running atomic.Bool
}

var (
	errNotMade = invalid.New("Store", "", "must be made with New")
	errNoCtx   = invalid.New("ctx", "", "must not be nil")
)

// New returns an empty Store for the objects of s, which [Store.Run] reads. opts is copied and may be nil.
//
// It returns a [*stream.OptionsError] if an option is invalid, or if s was not made with [stream.New].
func New(s *stream.Stream, opts *Options) (*Store, error) {
	watched, _, err := s.Watched(friend.Access{})
	if err != nil {
		return nil, err
	}
	opts = cmp.Or(opts, &Options{})
	store := &Store{stream: s, codec: compact.NewCodec(opts.Compress), seed: maphash.MakeSeed()}
	store.names = slices.Sorted(maps.Keys(opts.Indexes))
	for _, name := range store.names {
		if name == "" || opts.Indexes[name] == nil {
			return nil, invalid.New("Indexes", name, "an index must have a name and a function")
		}
		store.indexes = append(store.indexes, opts.Indexes[name])
	}
	store.state.Store(store.empty(watched.Namespaces))
	return store, nil
}

// empty returns a state without objects.
func (s *Store) empty(namespaces []string) *state {
	st := &state{replaced: make(chan struct{})}
	for _, n := range namespaces {
		st.shards = append(st.shards, shard{namespace: n, indexes: make([]*node, len(s.names))})
	}
	return st
}

// Run keeps the Store up to date until ctx ends or the Stream's run does. It returns nil after [stream.Stream.Stop].
// Otherwise it returns
//
//   - the error with which the run ended, which [stream.Stream.Events] lists: the cause of ctx, for one,
//   - an error that names the index, if its function panicked; it has no more of the panic than an error,
//   - an error if an object cannot be encoded as JSON, after [stream.Options].Transform for example,
//   - [stream.ErrBusy], if the Store or its Stream has another run,
//   - a [*stream.OptionsError], if ctx is nil or s was not made with [New].
//
// Between runs the objects stay as they were. A later run replaces them with what exists at its first SYNCED.
func (s *Store) Run(ctx context.Context) (err error) {
	switch {
	case s == nil || s.codec == nil:
		return errNotMade
	case ctx == nil:
		return errNoCtx
	case !s.running.CompareAndSwap(false, true):
		return stream.ErrBusy
	}
	defer s.running.Store(false)
	w := newWriter(s)
	defer func() { w.end(err) }()
	for ev, err := range s.stream.Host(ctx, host.Run{Bookmarks: true}) {
		if err == nil {
			err = w.handle(ev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// publish replaces the state, and wakes all that wait for that.
func (s *Store) publish(st *state) { close(s.state.Swap(st).replaced) }

// await waits for a state for which ready returns true, and returns it. It returns an error of ready, or the cause of
// ctx if that ends before, or with ends the error of a run that has ended.
func (s *Store) await(ctx context.Context, ends bool, ready func(*state) (bool, error)) (*state, error) {
	switch {
	case s == nil || s.codec == nil:
		return nil, errNotMade
	case ctx == nil:
		return nil, errNoCtx
	}
	for {
		st := s.state.Load()
		switch ok, err := ready(st); {
		case ok || err != nil:
			return st, err
		case ends && st.ended != nil:
			return nil, fmt.Errorf("store: the run has ended: %w", st.ended)
		}
		select {
		case <-st.replaced:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// WaitSynced waits until the Store is synced: the run has read everything that exists, and no GAP since. Something must
// call [Store.Run]. If a run ended and no other has begun, WaitSynced returns an error that wraps that of Run, or
// [stream.ErrUnmet] if there is none. (So call it a second time only when the second Run has begun.) It returns the
// cause of ctx if that ends before, or a [*stream.OptionsError] if ctx is nil or s was not made with [New]. With a ctx
// that has ended, it says at once whether the Store is synced.
func (s *Store) WaitSynced(ctx context.Context) error {
	syncs := -1 // how often it was synced before
	_, err := s.await(ctx, true, func(st *state) (bool, error) {
		if syncs < 0 {
			syncs = st.syncs
		}
		return st.synced || st.syncs != syncs, nil // a run may end at SYNCED, and nobody sees that state
	})
	return err
}

// WaitFor waits until the Store has everything up to a resourceVersion, such as that of an object that the caller has
// just written: then the object, or a later state of it, is what [Store.Get] returns. If several namespaces are
// watched, each must have reached that version.
//
// Something must call [Store.Run]. The Store learns of versions by events of its own objects, and by the server's
// bookmarks, which a kube-apiserver sends each minute. A version of an object that the Stream does not select, or of
// another namespace, is reached only with the next of these.
//
// It returns the errors of [Store.WaitSynced], and a [*stream.OptionsError] if resourceVersion is invalid. If the
// versions of the server are not numbers, or it sends none, it returns an error.
//
// It is not promised that a version from before a restore of the server's data has the same meaning after it. WaitFor
// then waits for the server to reach that version again.
func (s *Store) WaitFor(ctx context.Context, resourceVersion string) error {
	if !protocol.NotAfter(resourceVersion, resourceVersion) {
		return invalid.New("resourceVersion", resourceVersion, "must be a positive number without leading zeros")
	}
	_, err := s.await(ctx, true, func(st *state) (bool, error) {
		for _, shard := range st.shards {
			if (st.synced || shard.version != "") && !protocol.NotAfter(shard.version, shard.version) {
				return false, errors.New("store: cannot compare resourceVersions: those of the server are not numbers")
			}
			if !protocol.NotAfter(resourceVersion, shard.version) {
				return false, nil
			}
		}
		return true, nil
	})
	return err
}
