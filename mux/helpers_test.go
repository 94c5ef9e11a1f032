package mux_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var errTimeUp = errors.New("time is up")

// anHour bounds a test, so that one that hangs ends.
func anHour(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, errTimeUp)
	t.Cleanup(cancel)
	return ctx
}

func resource(plural, kind string) gvr.Resource {
	r := gvr.Resource{Kind: kind, Namespaced: true, Verbs: []string{"list", "watch"}}
	r.Group, r.Version, r.Resource = "example.com", "v1", plural
	return r
}

func widgets() gvr.Resource { return resource("widgets", "Widget") }
func gadgets() gvr.Resource { return resource("gadgets", "Gadget") }

func newStream(t *testing.T, srv *streamtest.Server, r gvr.Resource, o *stream.Options) *stream.Stream {
	t.Helper()
	s, err := stream.New(srv.Client(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t *testing.T, m *mux.Mux, s mux.Source, o *mux.SourceOptions) {
	t.Helper()
	if err := m.Add(s, o); err != nil {
		t.Error(err)
	}
}

// do sends a command to a server.
func do(t *testing.T, srv *streamtest.Server, what string) {
	t.Helper()
	if err := srv.Do(what); err != nil {
		t.Error(err)
	}
}

func newMux(t *testing.T, o *mux.Options, sources ...mux.Source) *mux.Mux {
	t.Helper()
	m, err := mux.New(o, sources...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func object(name, uid, rv string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name, "uid": uid, "resourceVersion": rv},
	}}
}

func synced() stream.Event { return stream.Event{Type: stream.Synced} }

func modified(name, rv string) stream.Event {
	return stream.Event{Type: stream.Modified, Object: object(name, "u-"+name, rv), ResourceVersion: rv}
}

// scripted is a source that does what the test says, in each run.
type scripted struct {
	key string
	// run delivers events with put, which returns false when run has to end. Its error ends the source.
	run func(ctx context.Context, put func(stream.Event) bool) error

	mu   sync.Mutex
	open bool
}

func (s *scripted) Key() string { return s.key }

func (s *scripted) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		s.mu.Lock()
		s.open = true
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.open = false
		}()
		left := false
		err := s.run(ctx, func(ev stream.Event) bool {
			left = left || !yield(ev, nil)
			return !left
		})
		if err != nil && !left {
			yield(stream.Event{}, err)
		}
	}
}

func (s *scripted) isOpen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// emitting returns a source that delivers events and waits for its end.
func emitting(key string, events ...stream.Event) *scripted {
	return &scripted{key: key, run: func(ctx context.Context, put func(stream.Event) bool) error {
		for _, ev := range events {
			if !put(ev) {
				return nil
			}
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}}
}

// ending returns a source that delivers events and ends with err, which may be nil.
func ending(key string, err error, events ...stream.Event) *scripted {
	return &scripted{key: key, run: func(_ context.Context, put func(stream.Event) bool) error {
		for _, ev := range events {
			if !put(ev) {
				return nil
			}
		}
		return err
	}}
}
