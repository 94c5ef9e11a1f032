package controller_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestRunReconcilesWhatDiffers(t *testing.T) {
	recreate := func(t *testing.T, srv *streamtest.Server) {
		remove(t, srv, "a")
		srv.Put(widgets(), "lab", "a", "spec.n=9")
	}
	for _, c := range []struct {
		why  string
		do   func(*testing.T, *streamtest.Server)
		want []string // the last of each object
	}{{
		"live changes", func(t *testing.T, srv *streamtest.Server) {
			srv.Put(widgets(), "lab", "a", "spec.n=1")
			remove(t, srv, "b")
		}, []string{"DELETED lab/b@5", "MODIFIED lab/a@4"},
	}, {
		"the newest event of a recreated object", recreate, []string{"ADDED lab/a@5"},
	}, {
		"a gap, and only one object differs", func(t *testing.T, srv *streamtest.Server) {
			gap(t, srv, func() { srv.Put(widgets(), "lab", "b", "spec.n=1") })
		}, []string{"MODIFIED lab/b@4 inferred"},
	}, {
		"a gap, and an object is deleted", func(t *testing.T, srv *streamtest.Server) {
			gap(t, srv, func() { remove(t, srv, "b") })
		}, []string{"DELETED lab/b@3 inferred"},
	}, {
		"a gap, and an object is recreated", func(t *testing.T, srv *streamtest.Server) {
			gap(t, srv, func() { recreate(t, srv) })
		}, []string{"ADDED lab/a@5 inferred"},
	}, {
		"the type goes and comes back", func(t *testing.T, srv *streamtest.Server) {
			do(t, srv, "widgets delete crd")
			time.Sleep(time.Minute)
			do(t, srv, "widgets create crd")
			srv.Put(widgets(), "lab", "a")
		}, []string{"ADDED lab/a@8 inferred", "DELETED lab/b@5"},
	}} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := bounded(t)
				srv := streamtest.NewServer(widgets())
				srv.Put(widgets(), "lab", "a")
				srv.Put(widgets(), "lab", "b")
				var j journal
				run := start(ctx, newStream(t, srv, nil).Events(ctx), func(
					ctx context.Context, k controller.Key, ev stream.Event,
				) (controller.Result, error) {
					time.Sleep(time.Second) // slow, so that events of a key coalesce
					return j.reconcile(ctx, k, ev)
				}, nil)
				time.Sleep(time.Minute)
				if diff := cmp.Diff([]string{"ADDED lab/a@2", "ADDED lab/b@3"}, j.reset()); diff != "" {
					t.Errorf("at first (-want +got):\n%s", diff)
				}
				c.do(t, srv)
				time.Sleep(30 * time.Minute)
				if diff := cmp.Diff(c.want, lastOf(j.reset())); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				cancel(errFails)
				if err := run.wait(); err != errFails {
					t.Errorf("got error %v, want the cause of the context", err)
				}
			})
		})
	}
}

func TestRetries(t *testing.T) {
	for _, c := range []struct {
		why  string
		fail func()
	}{
		{"an error", nil},
		{"a panic", func() { panic(errFails) }},
		{"runtime.Goexit, as of t.FailNow, takes no worker away", runtime.Goexit},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, _ := bounded(t)
				var j journal
				var tries atomic.Int64
				events := emit(nil, event(stream.Added, "a", "1"))
				began := time.Now()
				err := controller.Run(ctx, events, func(
					ctx context.Context, k controller.Key, ev stream.Event,
				) (controller.Result, error) {
					if tries.Add(1) <= 3 {
						if c.fail != nil {
							c.fail()
						}
						return controller.Result{RequeueAfter: time.Millisecond}, errFails // the error counts
					}
					return j.reconcile(ctx, k, ev)
				}, &controller.Options{RateLimiter: fast()})
				if diff := cmp.Diff([]string{"ADDED lab/a@1"}, j.reset()); diff != "" || err != nil {
					t.Errorf("error %v (-want +got):\n%s", err, diff)
				}
				if took := time.Since(began); took != 3*time.Second {
					t.Errorf("took %s, want 3 waits of 1s", took)
				}
			})
		})
	}
}

func TestRetryHasTheNewestEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := bounded(t)
		var j journal
		events := then(emit(nil, event(stream.Added, "a", "1")), func() { time.Sleep(time.Second) })
		seq := func(yield func(stream.Event, error) bool) {
			events(yield)
			yield(event(stream.Modified, "a", "2"), nil)
			yield(event(stream.Modified, "a", "3"), nil)
		}
		err := controller.Run(ctx, seq, func(
			_ context.Context, _ controller.Key, ev stream.Event,
		) (controller.Result, error) {
			j.add("%s", ev)
			if ev.ResourceVersion == "1" {
				time.Sleep(3 * time.Second)
				return controller.Result{}, errFails
			}
			return controller.Result{}, nil
		}, &controller.Options{RateLimiter: fast()})
		if diff := cmp.Diff([]string{"ADDED lab/a@1", "MODIFIED lab/a@3"}, j.reset()); diff != "" || err != nil {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
	})
}

func TestRequeueAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := bounded(t)
		var j journal
		srv := streamtest.NewServer(widgets())
		srv.Put(widgets(), "lab", "a")
		began := time.Now()
		run := start(ctx, newStream(t, srv, nil).Events(ctx), func(
			_ context.Context, _ controller.Key, ev stream.Event,
		) (controller.Result, error) {
			j.add("%s %s", time.Since(began).Round(time.Second), ev)
			if ev.Type == stream.Deleted {
				return controller.Result{}, nil
			}
			return controller.Result{RequeueAfter: 10 * time.Minute}, nil
		}, &controller.Options{MaxPending: 1})
		time.Sleep(15 * time.Minute)
		srv.Put(widgets(), "lab", "b") // keys that wait for RequeueAfter leave room
		srv.Put(widgets(), "lab", "a", "spec.n=1")
		time.Sleep(6 * time.Minute)
		remove(t, srv, "a")
		remove(t, srv, "b")
		time.Sleep(time.Hour)
		want := []string{
			"0s ADDED lab/a@2", "10m0s ADDED lab/a@2", "15m0s ADDED lab/b@3", "15m0s MODIFIED lab/a@4",
			"20m0s MODIFIED lab/a@4", "21m0s DELETED lab/a@5", "21m0s DELETED lab/b@6",
		}
		if diff := cmp.Diff(want, j.reset()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		cancel(nil)
		if err := run.wait(); err != context.Canceled {
			t.Error(err)
		}
	})
}

func TestAtMostMaxPendingKeysWait(t *testing.T) {
	for _, keysOnly := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := bounded(t)
			taken, release := 0, make(chan struct{})
			seq := func(yield func(stream.Event, error) bool) {
				for i := range 100 {
					ev := event(stream.Added, fmt.Sprint("n", i%20), fmt.Sprint(i+1))
					if !yield(ev, nil) {
						return
					}
					taken++
				}
			}
			run := start(ctx, seq, func(
				_ context.Context, _ controller.Key, ev stream.Event,
			) (controller.Result, error) {
				select {
				case <-release:
				default:
					return controller.Result{}, errFails
				}
				if ev.HasObject() == keysOnly {
					t.Errorf("KeysOnly %t: got %s", keysOnly, ev)
				}
				return controller.Result{}, nil
			}, &controller.Options{MaxPending: 7, KeysOnly: keysOnly, RateLimiter: fast(), Workers: 2})
			time.Sleep(time.Hour)
			synctest.Wait() // for the race detector
			if taken != 7 {
				t.Errorf("%d events were taken while all reconciles failed, want 7", taken)
			}
			close(release)
			if err := run.wait(); err != nil || taken != 100 {
				t.Errorf("error %v, %d events taken", err, taken)
			}
			cancel(nil)
		})
	}
}

func TestEnds(t *testing.T) {
	one := event(stream.Added, "a", "1")
	for _, c := range []struct {
		why     string
		err     error // of the sequence
		cancel  bool
		options controller.Options
		want    error
	}{
		{why: "an error of the sequence ends reconciles that hang", err: errFails, want: errFails},
		{why: "the end of the context ends reconciles that hang", cancel: true, want: errTimeUp},
		{why: "it ends the wait for room", cancel: true, want: errTimeUp, options: controller.Options{MaxPending: 1}},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := bounded(t)
				if c.cancel {
					time.AfterFunc(time.Minute, func() { cancel(errTimeUp) })
				}
				var running atomic.Int64
				c.options.Workers = 3
				events := then(emit(nil, one, event(stream.Added, "b", "2")), func() { time.Sleep(time.Second) })
				seq := func(yield func(stream.Event, error) bool) {
					events(yield)
					emit(c.err)(yield)
				}
				err := controller.Run(ctx, seq, func(
					ctx context.Context, _ controller.Key, _ stream.Event,
				) (controller.Result, error) {
					running.Add(1)
					defer running.Add(-1)
					<-ctx.Done()
					if context.Cause(ctx) != c.want {
						t.Errorf("the cause is %v", context.Cause(ctx))
					}
					panic("at the end")
				}, &c.options)
				if err != c.want || running.Load() != 0 {
					t.Errorf("got error %v with %d reconciles running, want %v", err, running.Load(), c.want)
				}
			})
		})
	}
}

func TestPanicsOutsideReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := bounded(t)
		var j journal
		err := controller.Run(ctx, emit(nil, event(stream.Added, "a", "1")), j.reconcile, &controller.Options{
			KeyFunc: func(stream.Event) []controller.Key { panic(errFails) },
		})
		var panicked *stream.PanicError
		if !errors.As(err, &panicked) || !errors.Is(err, errFails) || len(panicked.Stack) == 0 {
			t.Errorf("KeyFunc: got %v", err)
		}
		defer func() {
			if v := recover(); v != "of the sequence" {
				t.Errorf("recovered %v", v)
			}
		}()
		err = controller.Run(ctx, then(emit(nil, event(stream.Added, "a", "1")), func() { panic("of the sequence") }),
			j.reconcile, nil)
		t.Errorf("the sequence: got %v", err)
	})
}

func TestInvalidArguments(t *testing.T) {
	var j journal
	seq := emit(nil)
	for _, c := range []struct {
		want string
		err  error
	}{
		{"ctx", controller.Run(noContext, seq, j.reconcile, nil)},
		{"seq", controller.Run(t.Context(), nil, j.reconcile, nil)},
		{"reconcile", controller.Run(t.Context(), seq, nil, nil)},
		{"Workers", controller.Run(t.Context(), seq, j.reconcile, &controller.Options{Workers: -1})},
		{"Workers", controller.Run(t.Context(), seq, j.reconcile, &controller.Options{Workers: 1 << 20})},
		{"MaxPending", controller.Run(t.Context(), seq, j.reconcile, &controller.Options{MaxPending: -1})},
	} {
		var invalid *stream.OptionsError
		if !errors.As(c.err, &invalid) || invalid.Field != c.want {
			t.Errorf("got %v, want an OptionsError of %s", c.err, c.want)
		}
	}
	if err := controller.Run(t.Context(), seq, j.reconcile, nil); err != nil {
		t.Errorf("an empty sequence: %v", err)
	}
	for want, e := range map[string]stream.PanicError{
		"panic: v":    {Value: "v"},
		"panic: oops": {Where: key("a").String(), Value: "oops"},
	} {
		if e.Error() != want || e.Unwrap() != nil {
			t.Errorf("got %q, which wraps %v, want %q", e.Error(), e.Unwrap(), want)
		}
	}
}

// A Mux of several resources has keys of several resources.
func TestMux(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := bounded(t)
		srv := streamtest.NewServer(widgets(), gadgets())
		srv.Put(widgets(), "lab", "a")
		srv.Put(gadgets(), "lab", "a")
		once := stream.Run{Until: stream.UntilSynced}
		one := newStream(t, srv, nil)
		two, err := stream.New(srv.Client(), gadgets(), nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := mux.New(nil, one.With(once), two.With(once))
		if err != nil {
			t.Fatal(err)
		}
		var j journal
		err = controller.Run(ctx, m.Events(ctx), func(
			_ context.Context, k controller.Key, ev stream.Event,
		) (controller.Result, error) {
			j.add("%s: %s", k, ev)
			return controller.Result{}, nil
		}, &controller.Options{Workers: 2})
		want := []string{"gadgets.example.com lab/a: ADDED lab/a@3", "widgets.example.com lab/a: ADDED lab/a@2"}
		if diff := cmp.Diff(want, j.sorted()); diff != "" || err != nil {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
	})
}

// Workers of different keys run at once, those of one key never.
func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, _ := bounded(t)
		var mu sync.Mutex
		running, most := map[controller.Key]int{}, 0
		seq := func(yield func(stream.Event, error) bool) {
			for i := range 40 {
				time.Sleep(time.Second / 4)
				if !yield(event(stream.Modified, fmt.Sprint("n", i%5), fmt.Sprint(i+1)), nil) {
					return
				}
			}
		}
		err := controller.Run(ctx, seq, func(
			_ context.Context, k controller.Key, _ stream.Event,
		) (controller.Result, error) {
			mu.Lock()
			running[k]++
			most = max(most, len(running))
			if running[k] > 1 {
				t.Errorf("%s is reconciled twice at once", k)
			}
			mu.Unlock()
			time.Sleep(3 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			delete(running, k)
			return controller.Result{}, nil
		}, &controller.Options{Workers: 3})
		if err != nil || most != 3 {
			t.Errorf("error %v, %d ran at once, want 3", err, most)
		}
	})
}
