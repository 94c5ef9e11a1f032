package controller_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Which events Run takes while keys wait. The objects of the events are named after their keys: "a+b" leads to two.
func TestRoom(t *testing.T) {
	for _, c := range []struct {
		why    string
		most   int
		events string
		taken  int
	}{
		{"events of keys that wait need no room", 1, "fail fail fail", 3},
		{"an event of another key waits", 1, "fail other", 1},
		{"an event waits if one of its keys does not wait yet", 1, "fail fail+other", 1},
		{"the keys of one event are taken together", 1, "fail+other other fail", 3},
		{"a key that waits for RequeueAfter needs room again", 1, "later fail later", 2},
		{"a bound that is never reached", math.MaxInt, "fail other fail+other", 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := bounded(t)
			taken := 0
			run := start(ctx, func(yield func(stream.Event, error) bool) {
				for i, name := range strings.Fields(c.events) {
					if !yield(event(stream.Modified, name, fmt.Sprint(i+1)), nil) {
						return
					}
					taken++
					time.Sleep(time.Minute)
				}
				<-ctx.Done()
			}, func(_ context.Context, k controller.Key, _ stream.Event) (controller.Result, error) {
				if k.Name == "later" {
					return controller.Result{RequeueAfter: 10 * time.Hour}, nil
				}
				return controller.Result{}, errFails
			}, &controller.Options{MaxPending: c.most, RateLimiter: fast(), KeyFunc: split})
			time.Sleep(time.Hour)
			synctest.Wait() // for the race detector
			if taken != c.taken {
				t.Errorf("%s: took %d events, want %d", c.why, taken, c.taken)
			}
			cancel(nil)
			_ = run.wait()
		})
	}
}

// split returns a key for each part of the object's name.
func split(ev stream.Event) (keys []controller.Key) {
	for name := range strings.SplitSeq(ev.NamespacedName().Name, "+") {
		keys = append(keys, key(name))
	}
	return keys
}

// Without a MaxPending 10,000 keys may wait.
func TestMaxPendingByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := bounded(t)
		taken := 0
		run := start(ctx, func(yield func(stream.Event, error) bool) {
			for ; yield(event(stream.Added, fmt.Sprint("n", taken), "1"), nil); taken++ {
			}
		}, func(ctx context.Context, _ controller.Key, _ stream.Event) (controller.Result, error) {
			<-ctx.Done()
			return controller.Result{}, ctx.Err()
		}, nil)
		time.Sleep(time.Minute)
		synctest.Wait() // for the race detector
		if taken != 10_000 {
			t.Errorf("took %d events", taken)
		}
		cancel(nil)
		_ = run.wait()
	})
}

// Keys that fail do not gather events that are not acked without a bound: 16 times MaxPending, counted for each key.
func TestUnackedEventsAreBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		most int
		want int
	}{{"a", 2, 32}, {"a+b", 2, 16}, {"a", math.MaxInt, 100}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := bounded(t)
			srv := streamtest.NewServer(widgets())
			tracker := scenario.NewTracker(t, &checkpoint.Memory{})
			events, taken := newStream(t, srv, nil).With(stream.Run{Checkpoint: tracker}).Events(ctx), 0
			run := start(ctx, func(yield func(stream.Event, error) bool) {
				events(func(ev stream.Event, err error) bool {
					ok := yield(ev, err)
					if ok && ev.HasObject() {
						taken++
					}
					return ok
				})
			}, func(context.Context, controller.Key, stream.Event) (controller.Result, error) {
				return controller.Result{}, errFails
			}, &controller.Options{RateLimiter: fast(), MaxPending: c.most, KeyFunc: split})
			for i := range 100 {
				time.Sleep(time.Second)
				srv.Put(widgets(), "lab", c.name, fmt.Sprint("spec.n=", i))
			}
			time.Sleep(time.Minute)
			synctest.Wait() // for the race detector
			if diff := cmp.Diff(c.want, taken); diff != "" {
				t.Errorf("events of %s taken with MaxPending %d (-want +got):\n%s", c.name, c.most, diff)
			}
			cancel(nil)
			_ = run.wait()
			if err := tracker.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
