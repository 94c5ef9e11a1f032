package stream_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestSharedAfterFailure: those that begin together while the server has a bad
// second share all the same, once it is over.
func TestSharedAfterFailure(t *testing.T) {
	for _, fault := range []string{"initial 1-3: 503", "any 1-10: 503", "initial 1: reset", "any 1-20: refuse"} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newSharers(t)
				g.put(20)
				g.apply(fault)
				var all []*sharer
				for range 10 {
					all = append(all, g.begin(stream.Options{Timeout: 100 * time.Hour}))
				}
				time.Sleep(3 * time.Minute)
				g.put(20)
				g.settle(all...)
				own := 0
				for _, s := range all {
					for _, r := range s.requests {
						if r.Verb == "watch" && r.Err == nil && !r.Shared {
							own++
						}
					}
				}
				if own > 3 {
					t.Errorf("ten Streams have %d watches", own)
				}
			})
		})
	}
}

// TestSharedBytes: what is kept for one who reads a snapshot is bounded by its size
// as well, so that one who is slow does not cost more than that.
func TestSharedBytes(t *testing.T) {
	measure := func(second bool) (grown int64) {
		synctest.Test(t, func(t *testing.T) {
			g := newSharers(t)
			g.put(1)
			ctx, cancel := context.WithCancelCause(t.Context())
			begin := func() {
				s, err := stream.New(g.client, widgets(), nil)
				if err != nil {
					t.Fatal(err)
				}
				g.wg.Go(func() {
					for range s.EventsWith(ctx, stream.Range{Connections: g.all}) {
					}
				})
				time.Sleep(time.Second)
			}
			begin()
			if second {
				g.apply("list 1: hang")
				begin()
			}
			heap := func() int64 {
				var ms runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&ms)
				return int64(ms.HeapAlloc)
			}
			before := heap()
			big := strings.Repeat("x", 100_000)
			for i := range 120 {
				g.srv.Put(widgets(), "default", "big", "spec.big="+big, fmt.Sprint("spec.n=", i))
				if i%10 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			time.Sleep(time.Second)
			grown = heap() - before
			cancel(errTimeUp)
			g.wg.Wait()
		})
		return grown
	}
	alone, with := measure(false), measure(true)
	if with-alone > 10<<20 {
		t.Errorf("%d MB are kept for one that reads its snapshot, of 12", (with-alone)>>20)
	}
}

// TestSharedKeptInHalves: what was kept and is let go of is missed by nobody: who
// would need it has a watch of its own.
func TestSharedKeptInHalves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		first := g.begin(stream.Options{Timeout: 100 * time.Hour})
		time.Sleep(time.Second)
		g.apply("list 1: slow 10s") // its version is that of the answer
		second := g.begin(stream.Options{Timeout: 100 * time.Hour, PageSize: 3})
		big := strings.Repeat("x", 700_000)
		for i := range 14 {
			g.srv.Put(widgets(), "default", "big", "spec.big="+big, fmt.Sprint("spec.n=", i))
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		g.put(5)
		g.settle(first, second)
		if n := second.count(stream.Gap); n > 0 {
			t.Errorf("%d GAPs, though nothing was lost", n)
		}
	})
}

// TestSharedTooSlow: who has been cut off goes on alone, until its own watch ends,
// and shares again then.
func TestSharedTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		quick := g.begin(stream.Options{Timeout: 100 * time.Hour})
		time.Sleep(time.Second)
		slow := g.add(stream.Options{Timeout: 10 * time.Minute})
		var hurry atomic.Bool
		slow.body = func(stream.Event) {
			if !hurry.Load() {
				time.Sleep(100 * time.Millisecond)
			}
		}
		slow.start()
		time.Sleep(10 * time.Second)
		for range 30 {
			g.put(20)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		g.wantWatches(2, "it has one of its own")
		if err := quick.stop(); err != nil {
			t.Error(err)
		}
		late := g.begin(stream.Options{Timeout: 100 * time.Hour})
		time.Sleep(time.Second)
		g.put(5)
		time.Sleep(time.Second)
		g.wantWatches(3, "which nobody else joins, though there is no other one")
		hurry.Store(true)
		time.Sleep(20 * time.Minute)
		g.wantWatches(3, "when that has ended it shares again")
		g.put(5)
		g.settle(slow, late)
		own, shared := 0, 0
		for _, r := range slow.requests {
			if r.Verb != "watch" {
				continue
			}
			if r.Shared {
				shared++
			} else {
				own++
			}
		}
		if own != 1 || shared != 2 {
			t.Errorf("the slow one has shared %d times and watched %d times by itself, want 2 and 1", shared, own)
		}
	})
}

// TestSharedSkips: who joins where it has read more than the watch has told is not
// told that again.
func TestSharedSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		g.apply("watch 1: slow 3s\ninitial 1: slow 200ms")
		first := g.begin(stream.Options{InitialList: stream.ListPaged, Timeout: 100 * time.Hour})
		time.Sleep(time.Second) // the watch is open, and behind
		g.put(10)
		g.srv.Put(widgets(), "default", "brief")
		if _, err := g.srv.Delete(widgets(), "default", "brief"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
		second := g.begin(stream.Options{Timeout: 100 * time.Hour})
		time.Sleep(time.Second)
		g.put(3)
		time.Sleep(5 * time.Minute)
		g.settle(first, second)
		g.wantWatches(1, "they share")
		if n := second.count(stream.Modified); n != 3 {
			t.Errorf("it was told %d changes, want the three after its snapshot", n)
		}
	})
}

// TestSharedEndOfOthers: the end of a watch that one is ahead of says nothing to it.
func TestSharedEndOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		old := g.srv.ResourceVersion()
		g.put(20)
		g.srv.Compact("")
		g.apply("watch 1: slow 1s") // and then says that it has expired
		behind := g.add(stream.Options{Start: stream.After(old), Timeout: 100 * time.Hour})
		behind.check.After = old
		behind.start()
		time.Sleep(100 * time.Millisecond)
		ahead := g.begin(stream.Options{Timeout: 100 * time.Hour})
		time.Sleep(time.Minute)
		g.put(20)
		g.settle(behind, ahead)
		if a, b := behind.count(stream.Gap), ahead.count(stream.Gap); a != 1 || b != 0 {
			t.Errorf("%d and %d GAPs, want one, of the one that had expired", a, b)
		}
		for _, e := range ahead.ends {
			if e.Err != nil {
				t.Errorf("it was told %v, which is not about it", e.Err)
			}
		}
	})
}

// TestSharedRewound: a server that answers with something older than what the watch
// has told is not where the watch is.
func TestSharedRewound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		first := g.begin(stream.Options{Timeout: 100 * time.Hour})
		time.Sleep(time.Second)
		g.put(10)
		time.Sleep(time.Second)
		// What the watch tells is kept from here on, for this one.
		g.apply("list 1: slow 20s\nlist 2: stale 3")
		waits := g.begin(stream.Options{Timeout: 100 * time.Hour})
		time.Sleep(time.Second)
		g.put(5)
		time.Sleep(time.Second)
		// A replica that lags behind, or a server that has gone back: which does not show.
		stale := g.begin(stream.Options{Timeout: 100 * time.Hour})
		time.Sleep(30 * time.Second)
		g.put(5)
		g.settle(first, waits, stale)
		g.wantWatches(2, "though what it lacks is kept, it is not where the watch is")
	})
}

// TestSharedLeader: of those that come together one asks for initial events, and
// if that leaves or fails, another one does.
func TestSharedLeader(t *testing.T) {
	for _, script := range []string{"", "initial 1: hang", "initial 1: 500", "initial 1-2: reset"} {
		t.Run(script, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newSharers(t)
				g.put(20)
				g.apply(script)
				var all []*sharer
				for range 5 {
					all = append(all, g.begin(stream.Options{Timeout: 100 * time.Hour}))
				}
				time.Sleep(100 * time.Millisecond)
				all[0].cancel(errTimeUp) // whoever that is
				<-all[0].over
				time.Sleep(2 * time.Minute)
				next := g.begin(stream.Options{Timeout: 100 * time.Hour})
				time.Sleep(time.Second)
				g.put(5)
				g.settle(append(all[1:], next)...)
				initial := 0
				for _, q := range g.srv.Requests() {
					if q.SendInitialEvents {
						initial++
					}
				}
				if most := 3; initial > most || g.watches() > 4 {
					t.Errorf("%d asked for initial events, want %d at most, and there were %d watches", initial, most, g.watches())
				}
			})
		})
	}
}

// TestSharedLeadsAgain: where there is a watch that can't be joined any more, the
// next one begins as the first one did.
func TestSharedLeadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(20)
		g.do("bookmarks never")
		initial := func() (n int) {
			for _, q := range g.srv.Requests() {
				if q.SendInitialEvents {
					n++
				}
			}
			return n
		}
		patient := g.begin(stream.Options{IdleTimeout: time.Hour})
		time.Sleep(time.Second)
		impatient := g.begin(stream.Options{IdleTimeout: 5 * time.Second})
		time.Sleep(3 * time.Second)
		g.do("widgets silence")
		time.Sleep(10 * time.Second)
		g.settle(impatient)
		before := initial()
		next := g.begin(stream.Options{IdleTimeout: time.Hour})
		time.Sleep(time.Second)
		if n := initial() - before; n != 1 {
			t.Errorf("it has asked for initial events %d times, want once", n)
		}
		g.settle(next)
		patient.cancel(errTimeUp)
		g.wg.Wait()
	})
}

// TestSharedCopies: an object belongs to the one who is told of it, also what was
// kept for who joins later.
func TestSharedCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSharers(t)
		g.put(7)
		g.apply("page *: slow 1s")
		var mu sync.Mutex
		seen := map[*unstructured.Unstructured]int{}
		body := func(ev stream.Event) {
			if ev.Object == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[ev.Object]++
			spec, _ := ev.Object.Object["spec"].(map[string]any)
			if spec["n"] == "mine" {
				t.Errorf("%s: somebody else has changed it", streamtest.Text(ev))
			}
			spec["n"] = "mine"
		}
		for range 3 {
			for range 2 { // who are told the same of what was kept
				s := g.add(stream.Options{PageSize: 2})
				s.body = body
				s.start()
			}
			time.Sleep(time.Second)
			g.put(3)
			time.Sleep(5 * time.Second)
			g.put(10)
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second)
		g.put(10)
		time.Sleep(time.Second)
		g.do("heal")
		g.do("widgets close watches")
		time.Sleep(10 * time.Second)
		g.put(3)
		time.Sleep(time.Second)
		mu.Lock()
		for o, n := range seen {
			if n > 1 {
				t.Errorf("%s is the same object for %d", o.GetName(), n)
			}
		}
		mu.Unlock()
		g.wantWatches(2, "they share")
	})
}
