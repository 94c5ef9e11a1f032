package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
)

// A key that was retained for RequeueAfter is pending again while it is reconciled, and while it fails, although no
// event has arrived: the end of the sequence waits for it.
func TestEndWaitsForAReconcileThatWasRequeued(t *testing.T) {
	for _, c := range []struct {
		why  string
		fail bool
		want []string
	}{
		{"one that runs", false, []string{"0s", "1s", "4s <nil>"}},
		{"one that failed", true, []string{"0s", "1s", "4s it fails", "5s", "8s <nil>"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, _ := bounded(t)
			var j journal
			calls, began := 0, time.Now()
			wait := 1500 * time.Millisecond // it ends while the second reconcile runs
			if c.fail {
				wait = 4500 * time.Millisecond // while the retry waits
			}
			seq := then(emit(nil, event(stream.Added, "a", "1")), func() { time.Sleep(wait) })
			err := controller.Run(ctx, seq, func(
				ctx context.Context, _ controller.Key, _ stream.Event,
			) (controller.Result, error) {
				j.add("%s", time.Since(began))
				if calls++; calls == 1 {
					return controller.Result{RequeueAfter: time.Second}, nil
				}
				time.Sleep(3 * time.Second)
				err := ctx.Err()
				if calls == 2 && c.fail {
					err = errFails
				}
				j.add("%s %v", time.Since(began), err)
				return controller.Result{}, err
			}, &controller.Options{RateLimiter: fast()})
			if diff := cmp.Diff(c.want, j.reset()); diff != "" || err != nil {
				t.Errorf("%s: error %v (-want +got):\n%s", c.why, err, diff)
			}
		})
	}
}

// A sequence that was not made with the context goes on after its end, and Run takes no event then.
func TestSequencesThatDoNotHeedTheContext(t *testing.T) {
	for _, c := range []struct {
		why  string
		more bool // an event after the end of the context
	}{{"it yields an event", true}, {"it ends", false}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := bounded(t)
			var j journal
			err := controller.Run(ctx, func(yield func(stream.Event, error) bool) {
				yield(event(stream.Added, "a", "1"), nil)
				time.Sleep(time.Second)
				cancel(errFails)
				if c.more && yield(event(stream.Added, "b", "2"), nil) {
					t.Error("Run wants another event")
				}
			}, j.reconcile, nil)
			if diff := cmp.Diff([]string{"ADDED lab/a@1"}, j.reset()); diff != "" || err != errFails {
				t.Errorf("%s: error %v (-want +got):\n%s", c.why, err, diff)
			}
		})
	}
}

// What waits in the queue when the run ends is not reconciled.
func TestNoReconcileBeginsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := bounded(t)
		calls := 0
		events := then(emit(nil, event(stream.Added, "a", "1"), event(stream.Added, "b", "2"),
			event(stream.Added, "c", "3")), func() { time.Sleep(time.Second) })
		err := controller.Run(ctx, func(yield func(stream.Event, error) bool) {
			events(yield)
			yield(stream.Event{}, errFails)
		}, func(ctx context.Context, _ controller.Key, _ stream.Event) (controller.Result, error) {
			calls++
			<-ctx.Done()
			return controller.Result{}, nil
		}, nil)
		if err != errFails || calls != 1 {
			t.Errorf("error %v, %d reconciles", err, calls)
		}
	})
}

// A panic is logged with its stack, and its error has the key.
func TestPanicsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := bounded(t)
		var text bytes.Buffer
		var errs []error
		log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if err, ok := a.Value.Any().(error); ok {
					errs = append(errs, err)
				}
				return a
			},
		}))
		tries := 0
		err := controller.Run(ctx, emit(nil, event(stream.Added, "a", "1")), func(
			context.Context, controller.Key, stream.Event,
		) (controller.Result, error) {
			if tries++; tries == 1 {
				panicForTheStack()
			}
			return controller.Result{}, nil
		}, &controller.Options{RateLimiter: fast(), Logger: log})
		var panicked *stream.PanicError
		switch {
		case err != nil || len(errs) != 1 || !errors.As(errs[0], &panicked):
			t.Fatalf("error %v, logged %v", err, errs)
		case panicked.Where != key("a").String() || panicked.Value != errFails || !errors.Is(errs[0], errFails):
			t.Errorf("got %v of %v", panicked.Value, panicked.Where)
		case !strings.Contains(string(panicked.Stack), "panicForTheStack"):
			t.Errorf("the stack is\n%s", panicked.Stack)
		case strings.Count(text.String(), "stack=") != 1 || strings.Count(text.String(), "panicForTheStack") != 1:
			t.Errorf("logged:\n%s", text.String())
		}
	})
}

func panicForTheStack() { panic(errFails) }

// Real goroutines: a worker that is idle may get a key at once, and must find its event.
func TestIdleWorkersFindTheEvent(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errTimeUp)
	defer cancel()
	const all = 20_000
	var count atomic.Int64
	err := controller.Run(ctx, func(yield func(stream.Event, error) bool) {
		for i := range all {
			if !yield(event(stream.Added, fmt.Sprint("n", i), "1"), nil) {
				return
			}
		}
	}, func(context.Context, controller.Key, stream.Event) (controller.Result, error) {
		count.Add(1)
		return controller.Result{}, nil
	}, &controller.Options{Workers: 8})
	if err != nil || count.Load() != all {
		t.Errorf("error %v, %d reconciles, want %d", err, count.Load(), all)
	}
}
