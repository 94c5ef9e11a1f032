package controller_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// What was not reconciled when the program was killed comes again, and what was does not.
func TestKilledBetweenReconciles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		for _, name := range []string{"a", "b", "c"} {
			srv.Put(widgets(), "lab", name)
		}
		store := &checkpoint.Memory{}
		var j journal
		for _, c := range []struct {
			why  string
			fail string // its reconciles fail until the program is killed
			do   func()
			want []string
		}{
			{"b fails", "b", func() {}, []string{"ADDED lab/a@2", "ADDED lab/c@4"}},
			{"b comes again, with its newest state", "", func() { srv.Put(widgets(), "lab", "b", "spec.n=1") },
				[]string{"ADDED lab/b@5 inferred"}},
			{"everything was acked, so one change comes", "", func() { srv.Put(widgets(), "lab", "a", "spec.n=1") },
				[]string{"MODIFIED lab/a@6"}},
			{"a deletion fails", "c", func() { remove(t, srv, "c") }, nil},
			{"it comes again, after a gap", "", func() { do(t, srv, "compact") }, []string{"DELETED lab/c@4 inferred"}},
			{"nothing is left", "", func() {}, nil},
		} {
			ctx, cancel := bounded(t)
			k := &scenario.Killable{Store: store}
			tracker := scenario.NewTracker(t, k)
			s := newStream(t, srv, nil).With(stream.Run{Checkpoint: tracker})
			if c.fail == "" {
				c.do()
			} else {
				time.AfterFunc(time.Minute, c.do)
			}
			run := start(ctx, s.Events(ctx), func(
				ctx context.Context, key controller.Key, ev stream.Event,
			) (controller.Result, error) {
				if ev.Ack(); key.Name == c.fail { // which has no effect
					return controller.Result{}, errFails
				}
				time.Sleep(time.Second)
				return j.reconcile(ctx, key, ev)
			}, &controller.Options{RateLimiter: fast()})
			time.Sleep(time.Hour)
			k.Kill()
			cancel(errTimeUp)
			if err := run.wait(); err != errTimeUp {
				t.Errorf("%s: got error %v", c.why, err)
			}
			_ = tracker.Close() // the store is fenced
			if diff := cmp.Diff(c.want, lastOrNone(j.reset())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.why, diff)
			}
		}
	})
}

func lastOrNone(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	return lastOf(lines)
}

// An event that leads to two keys is acked when both have succeeded.
func TestTwoKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := bounded(t)
		srv := streamtest.NewServer(widgets())
		store := &checkpoint.Memory{}
		tracker := scenario.NewTracker(t, store)
		s := newStream(t, srv, nil).With(stream.Run{Checkpoint: tracker})
		var mu sync.Mutex
		failing := "two"
		run := start(ctx, s.Events(ctx), func(
			_ context.Context, k controller.Key, _ stream.Event,
		) (controller.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			if k.Name == failing {
				return controller.Result{}, errFails
			}
			return controller.Result{}, nil
		}, &controller.Options{RateLimiter: fast(), KeysOnly: true, KeyFunc: func(ev stream.Event) []controller.Key {
			if ev.NamespacedName().Name == "none" {
				return nil
			}
			return []controller.Key{key("one"), key("two"), key("one")}
		}})
		at := func() string {
			time.Sleep(time.Minute)
			p := scenario.PositionIn(t, store, widgets())
			return p.ResourceVersions[""]
		}
		got := []string{at()}
		srv.Put(widgets(), "lab", "none")
		got = append(got, at())
		srv.Put(widgets(), "lab", "both")
		got = append(got, at())
		mu.Lock()
		failing = ""
		mu.Unlock()
		got = append(got, at())
		if diff := cmp.Diff([]string{"1", "2", "2", "3"}, got); diff != "" {
			t.Errorf("committed (-want +got):\n%s", diff)
		}
		cancel(nil)
		_ = run.wait()
		if err := tracker.Close(); err != nil {
			t.Error(err)
		}
	})
}

const seeds seedtest.Default = 100

// TestRandom kills and restarts a program whose reconciles fail, panic and take random times, on a server with faults.
// The checkpoint never passes an event that was not reconciled, no key is reconciled twice at once, and in the end
// every object was reconciled in its last state.
func TestRandom(t *testing.T) {
	seeds.Run(t, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			p := &randomProgram{
				Scenario: scenario.New(t, seed, 21, []gvr.Resource{widgets()}, "one", "two"),
				store:    &checkpoint.Memory{}, state: map[string]string{},
			}
			p.Writes(p.Rand, 20)
			for range p.IntN(4) {
				p.life(false)
				p.Writes(p.Rand, 5)
				if p.Chance(40) {
					p.Do("compact")
				}
			}
			p.life(true)
			want := map[string]string{}
			h := p.Server.History(widgets(), nil)
			for _, o := range h.At(len(h.Rewinds), "1000000000") {
				want[o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
			}
			if diff := cmp.Diff(want, p.state); diff != "" {
				t.Errorf("reconciled (-want +got):\n%s", diff)
			}
			if t.Failed() {
				t.Logf("%s\n%s", strings.Join(p.Log, "\n"), scenario.HistoryText(h))
			}
		})
	})
}

type randomProgram struct {
	*scenario.Scenario
	store checkpoint.Store

	mu       sync.Mutex
	failures *rand.Rand
	state    map[string]string // the last reconciled version of each object that exists
}

// recording is what one life of the program has received and handled.
type recording struct {
	events  []stream.Event
	handled map[int]bool
	running map[string]bool
}

// life runs the program until it is killed, or, if last, until it is up to date.
func (p *randomProgram) life(last bool) {
	before := scenario.PositionIn(p.T, p.store, widgets())
	k := &scenario.Killable{Store: p.store}
	tracker := scenario.NewTracker(p.T, k)
	s, err := stream.New(p.Server.Client(), widgets(), &stream.Options{
		Objects:  scenario.Pick(p.Rand, stream.Full, stream.Metadata),
		Requests: stream.Requests{PageSize: 1 + p.IntN(5)},
	})
	if err != nil {
		p.Fatal(err)
	}
	p.failures = rand.New(rand.NewPCG(p.Uint64(), 1))
	rec := &recording{handled: map[int]bool{}, running: map[string]bool{}}
	ctx, cancel := bounded(p.T)
	if !last {
		p.Faults(4, "500", "410", "close", "reset", "429 retry-after 3s", "hang")
	} else {
		p.Do("heal")
	}
	chance := p.IntN(60)
	run := start(ctx, func(yield func(stream.Event, error) bool) {
		for ev, err := range s.With(stream.Run{Checkpoint: tracker}).Events(ctx) {
			p.mu.Lock()
			if err == nil {
				p.Note("%s", ev)
				rec.events = append(rec.events, ev)
				rec.handled[len(rec.events)-1] = !ev.HasObject()
			}
			p.mu.Unlock()
			if !yield(ev, err) {
				return
			}
		}
	}, func(_ context.Context, key controller.Key, ev stream.Event) (controller.Result, error) {
		return p.reconcile(rec, chance, key, ev)
	}, &controller.Options{
		Workers: 1 + p.IntN(4), MaxPending: 1 + p.IntN(5), RateLimiter: fast(),
	})
	for range p.IntN(8) {
		time.Sleep(time.Duration(p.IntN(20)) * time.Second)
		p.Writes(p.Rand, 4)
		if p.Chance(20) {
			p.Do(scenario.Pick(p.Rand, "compact", "restart", "widgets expire", "widgets close watches"))
		}
	}
	if last {
		time.Sleep(6 * time.Hour)
	}
	k.Kill()
	after := scenario.PositionIn(p.T, p.store, widgets())
	if last {
		committed := map[string]string{}
		for _, o := range after.Objects {
			committed[o.NamespacedName().String()] = o.ResourceVersion
		}
		if diff := cmp.Diff(p.state, committed); diff != "" {
			p.Errorf("committed, though everything is reconciled (-want +got):\n%s", diff)
		}
	}
	cancel(errTimeUp)
	if err := run.wait(); err != errTimeUp {
		p.Errorf("Run returned %v", err)
	}
	_ = tracker.Close() // the store is fenced
	if err := oracle.CheckCheckpoint(oracle.CheckpointRun{
		Before: before, After: after, Events: rec.events, Acked: func(i int) bool { return rec.handled[i] },
	}); err != nil {
		p.Error(err)
	}
}

func (p *randomProgram) reconcile(
	rec *recording, chance int, k controller.Key, ev stream.Event,
) (controller.Result, error) {
	name := k.NamespacedName.String()
	p.mu.Lock()
	if rec.running[name] {
		p.Errorf("%s is reconciled twice at once", name)
	}
	rec.running[name] = true
	fails, takes := p.failures.IntN(100) < chance, time.Duration(p.failures.IntN(4))*time.Second
	p.mu.Unlock()
	time.Sleep(takes)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(rec.running, name)
	switch {
	case fails && takes > time.Second:
		panic("at random")
	case fails:
		return controller.Result{}, errFails
	}
	p.Note("reconciled %s", ev)
	newest := -1
	for i, e := range rec.events {
		if e.HasObject() && e.Object.GetUID() == ev.Object.GetUID() && e.String() == ev.String() {
			newest = i
		}
	}
	for i, e := range rec.events[:newest+1] {
		if e.HasObject() && controller.KeyOf(e) == k {
			rec.handled[i] = true
		}
	}
	if ev.Type == stream.Deleted {
		delete(p.state, name)
	} else {
		p.state[name] = ev.ResourceVersion
	}
	return controller.Result{}, nil
}
