package controller_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/scenario"
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
func (scripted) AllSynced() bool { return true }

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

func TestSourceOfAMuxIsSyncedWithTheLastStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		src, err := controller.NewSource(m, names, nil)
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
	})
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
		panics     bool
		sync, wait error
	}{
		{"an error before SYNCED", emit(errFails, added), false, errFails, errFails},
		{"an error after SYNCED", emit(errFails, added, synced), false, nil, errFails},
		{"no error, before SYNCED", emit(nil, added), false, stream.ErrUnmet, nil},
		{"no error, after SYNCED", emit(nil, synced), false, nil, nil},
		{"a panic", emit(nil, added), true, errTimeUp, errTimeUp},
	} {
		requests := names
		if c.panics {
			requests = func(stream.Event) []string { panic(errTimeUp) }
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

func TestSourceRefusesACheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := bounded(t)
		srv := streamtest.NewServer(widgets())
		tracker := scenario.NewTracker(t, &checkpoint.Memory{})
		s := newStream(t, srv, &stream.Options{Checkpoint: tracker})
		var invalid *stream.OptionsError
		if _, err := controller.NewSource(s, names, nil); !errors.As(err, &invalid) || invalid.Field != "Checkpoint" {
			t.Errorf("of a Stream: got %v", err)
		}
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
	var none *stream.Stream
	_, noSequence := controller.NewSource(nil, names, nil)
	_, noStream := controller.NewSource(none, names, nil)
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
		{"s", noSequence}, {"s", noStream}, {"requests", noRequests}, {"MaxQueued", negative},
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
