package controller_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var (
	errTimeUp = errors.New("time is up")
	errFails  = errors.New("it fails")

	noContext context.Context
)

func resource(plural, kind string) gvr.Resource {
	r := gvr.Resource{Kind: kind, Namespaced: true, Verbs: []string{"list", "watch"}}
	r.Group, r.Version, r.Resource = "example.com", "v1", plural
	return r
}

func widgets() gvr.Resource { return resource("widgets", "Widget") }
func gadgets() gvr.Resource { return resource("gadgets", "Gadget") }

func newStream(t *testing.T, srv *streamtest.Server, o *stream.Options) *stream.Stream {
	t.Helper()
	s, err := stream.New(srv.Client(), widgets(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bounded ends after a day, so that a test that hangs ends.
func bounded(t *testing.T) (context.Context, context.CancelCauseFunc) {
	inner, cancelTimeout := context.WithTimeoutCause(t.Context(), 24*time.Hour, errTimeUp)
	ctx, cancel := context.WithCancelCause(inner)
	t.Cleanup(func() { cancel(nil); cancelTimeout() })
	return ctx, cancel
}

func do(t *testing.T, srv *streamtest.Server, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if err := srv.Do(command); err != nil {
			t.Error(err)
		}
	}
}

func remove(t *testing.T, srv *streamtest.Server, name string) {
	t.Helper()
	if _, err := srv.Delete(widgets(), "lab", name); err != nil {
		t.Error(err)
	}
}

// gap makes changes while the server refuses requests, and lets their history expire.
func gap(t *testing.T, srv *streamtest.Server, change func()) {
	t.Helper()
	if err := srv.Apply("any 1-3: refuse"); err != nil {
		t.Error(err)
	}
	do(t, srv, "widgets close watches")
	change()
	do(t, srv, "compact")
}

// lastOf returns the last line about each object, sorted.
func lastOf(lines []string) []string {
	last := map[string]string{}
	for _, line := range lines {
		name, _, _ := strings.Cut(strings.Fields(line)[1], "@")
		last[name] = line
	}
	return slices.Sorted(maps.Values(last))
}

// event is one about an object of the namespace lab.
func event(kind stream.Type, name, rv string) stream.Event {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": "lab", "name": name, "uid": "u-" + name, "resourceVersion": rv},
	}}
	return stream.Event{Type: kind, Resource: widgets(), Object: o, ResourceVersion: rv}
}

func key(name string) controller.Key { return controller.KeyOf(event(stream.Added, name, "1")) }

// emit returns a sequence of these events, which ends with err if that is not nil.
func emit(err error, events ...stream.Event) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
		if err != nil {
			yield(stream.Event{}, err)
		}
	}
}

// then returns a sequence that calls f after first, before it ends.
func then(first iter.Seq2[stream.Event, error], f func()) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		for ev, err := range first {
			if !yield(ev, err) {
				return
			}
		}
		f()
	}
}

// journal notes what was reconciled.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// reset returns the lines since the last call.
func (j *journal) reset() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

func (j *journal) sorted() []string {
	lines := j.reset()
	slices.Sort(lines)
	return lines
}

// reconcile notes the event.
func (j *journal) reconcile(_ context.Context, _ controller.Key, ev stream.Event) (controller.Result, error) {
	j.add("%s", ev)
	return controller.Result{}, nil
}

// started is a Run in a goroutine.
type started struct {
	err  error
	done chan struct{}
}

func start(
	ctx context.Context, seq iter.Seq2[stream.Event, error],
	r func(context.Context, controller.Key, stream.Event) (controller.Result, error), o *controller.Options,
) *started {
	s := &started{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.err = controller.Run(ctx, seq, r, o)
	}()
	return s
}

func (s *started) wait() error {
	<-s.done
	return s.err
}

// fast retries after a second.
func fast() workqueue.TypedRateLimiter[controller.Key] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[controller.Key](time.Second, time.Second)
}
