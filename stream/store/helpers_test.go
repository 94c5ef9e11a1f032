package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/store"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func widgets() gvr.Resource {
	return gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
		Kind:                 "Widget", Namespaced: true, Verbs: []string{"list", "watch"},
	}
}

// indexes is the type of store.Options.Indexes.
type indexes = map[string]func(stream.Event) []string

var errTimeUp = errors.New("time is up")

// inBubble runs f in a bubble, with a context that ends after a day. The bubble fails if a goroutine is left.
func inBubble(t *testing.T, f func(*testing.T, context.Context, *streamtest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 24*time.Hour, errTimeUp)
		defer cancel()
		f(t, ctx, streamtest.NewServer(widgets()))
	})
}

func newStream(t *testing.T, srv *streamtest.Server, o *stream.Options) *stream.Stream {
	t.Helper()
	s, err := stream.New(srv.Client(), widgets(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stoppedAtSynced returns a Stream whose runs are stopped while SYNCED is delivered: its Logger does that.
func stoppedAtSynced(t *testing.T, srv *streamtest.Server) *stream.Stream {
	t.Helper()
	h := &stopper{Handler: slog.DiscardHandler}
	s := newStream(t, srv, &stream.Options{Logger: slog.New(h)})
	h.stop = s.Stop
	return s
}

// stopper calls stop when a Stream logs that it is synced, which it does just before it delivers SYNCED.
type stopper struct {
	slog.Handler
	stop func()
}

func (h *stopper) Enabled(context.Context, slog.Level) bool { return true }

func (h *stopper) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "synced" {
		h.stop()
	}
	return nil
}

func newStore(t *testing.T, s *stream.Stream, o *store.Options) *store.Store {
	t.Helper()
	st, err := store.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// start runs the Store, and returns a function that ends the run and returns its error.
func start(ctx context.Context, s *store.Store) (stop func() error) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return sync.OnceValue(func() error {
		cancel(errStopped)
		return <-done
	})
}

var errStopped = errors.New("stopped by the test")

// started returns a synced Store whose run ends with the test.
func started(
	t *testing.T, ctx context.Context, srv *streamtest.Server, so *stream.Options, o *store.Options,
) *store.Store {
	t.Helper()
	s := newStore(t, newStream(t, srv, so), o)
	stop := start(ctx, s)
	t.Cleanup(func() { _ = stop() })
	if err := s.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

func do(t *testing.T, srv *streamtest.Server, what ...string) {
	t.Helper()
	for _, w := range what {
		if err := srv.Do(w); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, srv *streamtest.Server, namespace, name string) {
	t.Helper()
	if _, err := srv.Delete(widgets(), namespace, name); err != nil {
		t.Fatal(err)
	}
}

// text returns namespace/name@resourceVersion.
func text(o store.Object) string {
	return strings.TrimSuffix(o.Namespace()+"/"+o.Name()+"@"+o.ResourceVersion(), "/@")
}

func listed(t *testing.T, s *store.Store, q store.Query) []string {
	t.Helper()
	objects, err := s.List(q)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for o := range objects {
		texts = append(texts, text(o))
	}
	return texts
}

// subscriber is a subscriber in a goroutine of its own.
type subscriber struct {
	mu   sync.Mutex
	list []string
	done chan struct{}
}

// subscribe records changes as "TYPE OLD NEW". Before each it waits for as long as pause returns.
func subscribe(t *testing.T, ctx context.Context, s *store.Store, pause func() time.Duration) *subscriber {
	sub := &subscriber{done: make(chan struct{})}
	t.Cleanup(func() { <-sub.done })
	go func() {
		defer close(sub.done)
		for c, err := range s.Subscribe(ctx) {
			line := strings.Join(strings.Fields(fmt.Sprint(c.Type, " ", text(c.Old), " ", text(c.New))), " ")
			if err != nil {
				line = err.Error()
			}
			sub.mu.Lock()
			sub.list = append(sub.list, line)
			sub.mu.Unlock()
			if pause != nil {
				time.Sleep(pause())
			}
		}
	}()
	return sub
}

// take returns what was received since the last call.
func (s *subscriber) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}
