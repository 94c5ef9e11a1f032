package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func names(ev stream.Event) []string { return []string{ev.NamespacedName().Name} }

// scripted is a sequence of a test.
type scripted iter.Seq2[stream.Event, error]

func (s scripted) Events(context.Context) iter.Seq2[stream.Event, error] {
	return iter.Seq2[stream.Event, error](s)
}
func (scripted) Synced(friend.Access) (all, whole bool) { return true, true }

func newQueue() workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
}

// drain returns what is in the queue.
func drain(q workqueue.TypedRateLimitingInterface[string]) (all []string) {
	for q.Len() > 0 {
		item, _ := q.Get()
		all = append(all, item)
		q.Done(item)
	}
	return all
}

func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := bounded(t)
		srv := streamtest.NewServer(widgets())
		srv.Put(widgets(), "lab", "a")
		srv.Put(widgets(), "lab", "b")
		src, err := controller.NewSource(newStream(t, srv, nil), names, nil)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(src) != "gvrwatch" {
			t.Errorf("it is called %s", src)
		}
		q := newQueue()
		defer q.ShutDown()
		var waiting sync.WaitGroup
		for range 3 { // at once, before Start and after
			waiting.Go(func() {
				if err := src.WaitForSync(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		if err := src.Start(ctx, q); err != nil {
			t.Fatal(err)
		}
		if err := src.Start(ctx, q); err != stream.ErrBusy {
			t.Errorf("the second Start: got %v", err)
		}
		waiting.Wait()
		if diff := cmp.Diff([]string{"a", "b"}, drain(q)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		gap(t, srv, func() { remove(t, srv, "a") })
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"a"}, drain(q)); diff != "" {
			t.Errorf("after a gap (-want +got):\n%s", diff)
		}
		do(t, srv, "widgets delete crd")
		time.Sleep(time.Minute)
		do(t, srv, "widgets create crd")
		srv.Put(widgets(), "lab", "c")
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]string{"b", "c"}, drain(q)); diff != "" {
			t.Errorf("after the type was away (-want +got):\n%s", diff)
		}
		short, cancelShort := context.WithCancelCause(ctx)
		cancelShort(errTimeUp)
		if err := src.Wait(short); err != errTimeUp {
			t.Errorf("Wait with a context that has ended: got %v", err)
		}
		cancel(errFails)
		if err := src.Wait(context.Background()); err != errFails {
			t.Errorf("Wait: got %v", err)
		}
		if err := src.WaitForSync(ctx); err != nil {
			t.Errorf("WaitForSync after the end: got %v", err)
		}
	})
}

// asItIs and inAnother return what a Source reads of a Mux.
func asItIs(m *mux.Mux) (*mux.Mux, error) { return m, nil }

func inAnother(m *mux.Mux) (*mux.Mux, error) { return mux.New(nil, keyed{m}) }

// keyed is a Mux as a source of another one.
type keyed struct{ *mux.Mux }

func (keyed) Key() string { return "inner" }

func TestSourceOfAMuxIsSyncedWithTheLastStream(t *testing.T) {
	for _, read := range []func(*mux.Mux) (*mux.Mux, error){asItIs, inAnother} {
		synctest.Test(t, func(t *testing.T) { testSourceOfAMuxIsSyncedWithTheLastStream(t, read) })
	}
}

func testSourceOfAMuxIsSyncedWithTheLastStream(t *testing.T, read func(*mux.Mux) (*mux.Mux, error)) {
	ctx, cancel := bounded(t)
	srv := streamtest.NewServer(widgets(), gadgets())
	srv.Put(gadgets(), "lab", "late")
	if err := srv.Apply("gadgets any 1-4: 500"); err != nil {
		t.Fatal(err)
	}
	two, err := stream.New(srv.Client(), gadgets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mux.New(nil, newStream(t, srv, nil), two)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := read(m)
	if err != nil {
		t.Fatal(err)
	}
	src, err := controller.NewSource(outer, names, nil)
	if err != nil {
		t.Fatal(err)
	}
	q := newQueue()
	defer q.ShutDown()
	if err := src.Start(ctx, q); err != nil {
		t.Fatal(err)
	}
	if err := src.WaitForSync(ctx); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"late"}, drain(q)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	cancel(nil)
	_ = src.Wait(context.Background())
}

// A Mux emits nothing when a source is removed, so WaitForSync must find out that the others are synced.
func TestSourceIsSyncedWithoutARemovedStream(t *testing.T) {
	for _, c := range []struct {
		why    string
		remove int
		ended  bool // WaitForSync waits until the context ends
		read   func(*mux.Mux) (*mux.Mux, error)
	}{
		{"the one that never syncs", 1, false, asItIs},
		{"nothing is left that is synced", 2, true, asItIs},
		{"the one that never syncs, of a Mux in a Mux", 1, false, inAnother},
		{"nothing is left that is synced, of a Mux in a Mux", 2, true, inAnother},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := bounded(t)
			srv := streamtest.NewServer(widgets(), gadgets())
			srv.Put(widgets(), "lab", "a")
			if err := srv.Apply("gadgets any 1-9999: 500"); err != nil {
				t.Fatal(err)
			}
			two, err := stream.New(srv.Client(), gadgets(), nil)
			if err != nil {
				t.Fatal(err)
			}
			one := newStream(t, srv, nil)
			m, err := mux.New(nil, one, two)
			if err != nil {
				t.Fatal(err)
			}
			outer, err := c.read(m)
			if err != nil {
				t.Fatal(err)
			}
			src, err := controller.NewSource(outer, names, nil)
			if err != nil {
				t.Fatal(err)
			}
			q := newQueue()
			if err := src.Start(ctx, q); err != nil {
				t.Fatal(err)
			}
			var ended atomic.Bool
			var waiting sync.WaitGroup
			began := time.Now()
			for range 2 { // both may find out
				waiting.Go(func() {
					if err := src.WaitForSync(ctx); err != nil {
						ended.Store(true)
					}
				})
			}
			time.Sleep(time.Minute)
			for _, s := range []*stream.Stream{one, two}[2-c.remove:] { // two is never synced
				m.Remove(s.Key())
			}
			time.AfterFunc(time.Hour, func() { cancel(errFails) })
			waiting.Wait()
			if took := time.Since(began); ended.Load() != c.ended || took < time.Minute {
				t.Errorf("%s: ended with its context: %t, after %s", c.why, ended.Load(), took)
			}
			cancel(errFails)
			_ = src.Wait(context.Background())
			q.ShutDown()
		})
	}
}

// WaitForSync returns the cause of its context, before Start and after.
func TestWaitForSyncEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, stop := bounded(t)
		src, err := controller.NewSource(scripted(then(emit(nil), func() { <-running.Done() })), names, nil)
		if err != nil {
			t.Fatal(err)
		}
		wait := func(why string) {
			t.Helper()
			canceled, cancel := context.WithCancelCause(t.Context())
			cancel(errFails)
			later, cancelLater := context.WithTimeoutCause(t.Context(), time.Minute, errTimeUp)
			defer cancelLater()
			plain, cancelPlain := context.WithTimeout(t.Context(), time.Minute)
			defer cancelPlain()
			for _, c := range []struct {
				ctx  context.Context
				want error
			}{{canceled, errFails}, {later, errTimeUp}, {plain, context.DeadlineExceeded}} {
				if err := src.WaitForSync(c.ctx); err != c.want {
					t.Errorf("%s: got %v, want %v", why, err, c.want)
				}
			}
		}
		wait("before Start")
		q := newQueue()
		if err := src.Start(running, q); err != nil {
			t.Fatal(err)
		}
		wait("after Start")
		stop(errFails)
		_ = src.Wait(t.Context())
		q.ShutDown()
	})
}

// One event may lead to several requests, and a GAP may hide deletions.
func TestSourceAddsAllRequests(t *testing.T) {
	var text bytes.Buffer
	lost := stream.Event{Type: stream.Gap, Gap: &stream.GapDetails{Reason: stream.GapExpired, HistoryLost: true}}
	known := stream.Event{Type: stream.Gap, Gap: &stream.GapDetails{Reason: stream.GapExpired}}
	src, err := controller.NewSource(scripted(emit(nil, lost, known, event(stream.Added, "a", "1"))),
		func(ev stream.Event) []string { return []string{"x", "y", "z"} },
		&controller.SourceOptions{Logger: slog.New(slog.NewTextHandler(&text, nil))})
	if err != nil {
		t.Fatal(err)
	}
	q := newQueue()
	defer q.ShutDown()
	if err := errors.Join(src.Start(t.Context(), q), src.Wait(t.Context())); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"x", "y", "z"}, drain(q)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := text.String(); strings.Count(got, "WARN") != 1 || !strings.Contains(got, "history lost: del") {
		t.Errorf("logged:\n%s", got)
	}
}

// With MaxQueued the workers start when the queue is full, and the server waits.
func TestMaxQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := bounded(t)
		srv := streamtest.NewServer(widgets())
		for i := range 50 {
			srv.Put(widgets(), "lab", fmt.Sprint("n", i))
		}
		src, err := controller.NewSource(newStream(t, srv, nil), names, &controller.SourceOptions{MaxQueued: 10})
		if err != nil {
			t.Fatal(err)
		}
		q := newQueue()
		if err := src.Start(ctx, q); err != nil {
			t.Fatal(err)
		}
		if err := src.WaitForSync(ctx); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Millisecond) // the Source looks for room every 5 ms, so never during drain
		total := 0
		for range 5 {
			time.Sleep(time.Minute)
			n := len(drain(q))
			if total += n; n != 10 {
				t.Errorf("the queue had %d requests, want 10", n)
			}
		}
		time.Sleep(time.Second)
		for i := range 20 { // it waits after SYNCED, too
			srv.Put(widgets(), "lab", fmt.Sprint("n", i), "spec.n=1")
		}
		time.Sleep(time.Minute)
		if q.Len() != 10 || total != 50 {
			t.Errorf("the queue has %d requests after %d, want 10 after 50", q.Len(), total)
		}
		cancel(errFails)
		if err := src.Wait(context.Background()); err != errFails {
			t.Error(err)
		}
		q.ShutDown()
	})
}

func TestSourceEnds(t *testing.T) {
	synced := stream.Event{Type: stream.Synced}
	added := event(stream.Added, "a", "1")
	for _, c := range []struct {
		why        string
		seq        iter.Seq2[stream.Event, error]
		does       func() // in the function of the Source
		sync, wait error
	}{
		{"an error before SYNCED", emit(errFails, added), nil, errFails, errFails},
		{"an error after SYNCED", emit(errFails, added, synced), nil, nil, errFails},
		{"no error, before SYNCED", emit(nil, added), nil, stream.ErrUnmet, nil},
		{"no error, after SYNCED", emit(nil, synced), nil, nil, nil},
		{"a panic", emit(nil, added), func() { panic(errTimeUp) }, errTimeUp, errTimeUp},
	} {
		requests := names
		if c.does != nil {
			requests = func(stream.Event) []string { c.does(); return nil }
		}
		src, err := controller.NewSource(scripted(c.seq), requests, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := newQueue()
		if err := src.Start(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		if err := src.Wait(t.Context()); !errors.Is(err, c.wait) {
			t.Errorf("%s: Wait returned %v, want %v", c.why, err, c.wait)
		}
		if err := src.WaitForSync(t.Context()); !errors.Is(err, c.sync) {
			t.Errorf("%s: WaitForSync returned %v, want %v", c.why, err, c.sync)
		}
		q.ShutDown()
	}
}

// As in a test that calls t.FailNow in the function.
func TestGoexitEndsASource(t *testing.T) {
	src, err := controller.NewSource(scripted(emit(nil, event(stream.Added, "a", "1"))),
		func(stream.Event) []string { runtime.Goexit(); return nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	q := newQueue()
	defer q.ShutDown()
	if err := src.Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{src.Wait(t.Context()), src.WaitForSync(t.Context())} {
		if err == nil || err == stream.ErrUnmet || !strings.Contains(err.Error(), "Source called runtime.Goexit") {
			t.Errorf("got %v", err)
		}
	}
}

func TestSourceRefusesACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := bounded(t)
		srv := streamtest.NewServer(widgets())
		tracker := scenario.NewTracker(t, &checkpoint.Memory{})
		s := newStream(t, srv, nil).With(stream.Run{Checkpoint: tracker})
		var invalid *stream.OptionsError
		m, err := mux.New(nil, s)
		if err != nil {
			t.Fatal(err)
		}
		src, err := controller.NewSource(m, names, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := newQueue()
		defer q.ShutDown()
		if err := src.Start(ctx, q); err != nil {
			t.Fatal(err)
		}
		if err := src.WaitForSync(ctx); !errors.As(err, &invalid) || invalid.Field != "Checkpoint" {
			t.Errorf("of a Mux: got %v", err)
		}
		if err := tracker.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestInvalidSources(t *testing.T) {
	seq := scripted(emit(nil))
	_, noSequence := controller.NewSource(nil, names, nil)
	_, noRequests := controller.NewSource[string](seq, nil, nil)
	_, negative := controller.NewSource(seq, names, &controller.SourceOptions{MaxQueued: -1})
	src, err := controller.NewSource(seq, names, nil)
	if err != nil {
		t.Fatal(err)
	}
	zero, q := &controller.Source[string]{}, newQueue()
	defer q.ShutDown()
	for _, c := range []struct {
		want string
		err  error
	}{
		{"s", noSequence}, {"requests", noRequests}, {"MaxQueued", negative},
		{"ctx", src.Start(noContext, q)},
		{"ctx", src.Wait(noContext)},
		{"ctx", src.WaitForSync(noContext)},
		{"queue", src.Start(t.Context(), nil)},
		{"Source", zero.Start(t.Context(), q)},
		{"Source", zero.WaitForSync(t.Context())},
		{"Source", zero.Wait(t.Context())},
	} {
		var invalid *stream.OptionsError
		if !errors.As(c.err, &invalid) || invalid.Field != c.want {
			t.Errorf("got %v, want an OptionsError of %s", c.err, c.want)
		}
	}
}
