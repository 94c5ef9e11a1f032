package mux_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func newTracker(t *testing.T, store checkpoint.Store) *checkpoint.Tracker {
	t.Helper()
	tracker, err := checkpoint.NewTracker(store, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	return tracker
}

func position(t *testing.T, store checkpoint.Store) *checkpoint.Position {
	t.Helper()
	c, err := store.Load(t.Context(), "widgets.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return nil
	}
	return &c.Position
}

const latestCheckpointSeeds = seedtest.Default(40)

// TestLatestCheckpoint: whatever was merged, what is kept is what was told and
// acked. Each seed is some runs of a program that handles events slowly and is
// killed, while objects change, leave what is watched and come back, and the server
// forgets what was. The last run handles everything.
func TestLatestCheckpoint(t *testing.T) {
	for n := range latestCheckpointSeeds.All(t) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(n, 5))
			var scope stream.Options
			latest := streamtest.CheckOptions{Latest: true}
			options := stream.Options{}
			switch n % 3 {
			case 1:
				scope.LabelSelector, options.LabelSelector = "colour=red", "colour=red"
			case 2:
				options.Select = func(m stream.Meta) bool { return m.GetLabels()["colour"] == "red" }
				latest.Selected = func(u *unstructured.Unstructured) bool { return options.Select(u) }
			}
			srv := streamtest.NewServer(widgets())
			write := func(most int) {
				for range r.IntN(most) {
					name := fmt.Sprint("o", r.IntN(5))
					if r.IntN(3) == 0 {
						_, _ = srv.Delete(widgets(), "default", name)
					} else {
						colour := []string{"red", "red", "blue"}[r.IntN(3)]
						srv.Put(widgets(), "default", name, fmt.Sprint("spec.n=", r.IntN(1000)), "labels.colour="+colour)
					}
				}
				if r.IntN(8) == 0 {
					for _, what := range []string{"compact", "close watches"} {
						if err := srv.Do(what); err != nil {
							t.Error(err)
						}
					}
				}
			}
			store := checkpoint.NewMemory()
			const runs = 4
			for run := range runs {
				last := run == runs-1
				write(10)
				before := position(t, store)
				tracker := newTracker(t, store)
				o := options
				o.Checkpoint = tracker
				s := newStream(t, srv, widgets(), &o)
				m := newMux(t, &mux.Options{Overflow: mux.Latest}, s)
				left := 1 + r.IntN(20)
				if last {
					left += 1000
				}
				acked := map[int]bool{}
				var events []stream.Event
				check := func() {
					run := streamtest.CheckpointRun{Before: before, After: position(t, store), Events: slices.Clone(events), Acked: func(i int) bool { return acked[i] }, Options: latest}
					if err := streamtest.CheckCheckpoint(run); err != nil {
						t.Errorf("seed %d: %v\nbefore: %+v\nafter: %+v\n%v", n, err, before, run.After, streamtest.Texts(events))
					}
				}
				soon := time.Duration(r.IntN(20)+5) * time.Second
				if last {
					soon += time.Minute
				}
				var drainer sync.WaitGroup
				drainer.Go(func() {
					time.Sleep(soon)
					m.Drain()
				})
				for ev, err := range m.Events(anHour(t)) {
					if err != nil {
						t.Fatal(err)
					}
					events = append(events, ev)
					if s.Status().Synced {
						write(12)
					}
					time.Sleep(time.Duration(r.IntN(2500)) * time.Millisecond)
					for i := range events {
						if !acked[i] && r.IntN(3) == 0 {
							acked[i] = true
							events[i].Ack()
						}
					}
					time.Sleep(time.Duration(r.IntN(2)) * 1200 * time.Millisecond)
					if r.IntN(4) == 0 {
						check()
					}
					if left--; left == 0 {
						break
					}
				}
				drainer.Wait()
				if last || r.IntN(2) == 0 {
					for i := range events {
						acked[i] = true
						events[i].Ack()
					}
				}
				time.Sleep(2 * time.Second)
				check()
				if err := tracker.Close(); err != nil {
					t.Fatal(err)
				}
				check()
				after := position(t, store)
				if last {
					checkDone(t, n, events, after, s.Status().Checkpoint.Unacked)
				}
				opts := latest
				if before != nil {
					opts.From = &streamtest.Resume{ResourceVersions: before.ResourceVersions}
					for _, o := range before.Objects {
						opts.From.Objects = append(opts.From.Objects,
							streamtest.KnownObject{NamespacedName: o.NamespacedName(), UID: o.UID, ResourceVersion: o.ResourceVersion})
					}
				}
				if err := streamtest.Check(srv.History(widgets(), &scope), events, &opts); err != nil {
					t.Errorf("seed %d: %v\nbefore: %+v\n%v", n, err, before, streamtest.Texts(events))
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// checkDone reports what waits though everything that was told has been acked, and
// nothing is left to be told.
func checkDone(t *testing.T, seed uint64, events []stream.Event, after *checkpoint.Position, unacked int) {
	if unacked > 0 {
		t.Errorf("seed %d: all is acked, and %d wait:\n%v", seed, unacked, streamtest.Texts(events))
	}
	if after == nil {
		t.Errorf("seed %d: nothing is kept", seed)
		return
	}
	for _, o := range after.Objects {
		if o.ResourceVersion == "" {
			t.Errorf("seed %d: all is acked, and %s is not:\n%v", seed, o.Name, streamtest.Texts(events))
		}
	}
}

// TestLatestCheckpointIsBounded: what was merged away takes no memory, however
// long the loop takes, and once all is acked all is behind.
func TestLatestCheckpointIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		srv.Put(widgets(), "default", "a")
		store := checkpoint.NewMemory()
		tracker := newTracker(t, store)
		s := newStream(t, srv, widgets(), &stream.Options{Checkpoint: tracker})
		m := newMux(t, &mux.Options{Overflow: mux.Latest}, s)
		var events []stream.Event
		for ev, err := range m.Events(anHour(t)) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, ev)
			if ev.Type == stream.Synced {
				for i := range 500 {
					srv.Put(widgets(), "default", "a", fmt.Sprint("spec.n=", i))
					srv.Put(widgets(), "default", fmt.Sprint("gone", i))
					_, _ = srv.Delete(widgets(), "default", fmt.Sprint("gone", i))
					if i%100 == 0 {
						time.Sleep(time.Second)
					}
				}
				srv.Put(widgets(), "default", "b")
				srv.Put(widgets(), "default", "b", "spec.n=1")
				time.Sleep(time.Minute)
				if st := s.Status().Checkpoint; st.Unacked > 5 {
					t.Errorf("%d events wait for an ack, of which 2 have been told and 2 wait", st.Unacked)
				}
				if st := m.Status().Sources[0]; st.Vanished < 900 || st.Coalesced < 490 {
					t.Errorf("the status is %+v", st)
				}
				m.Drain()
			}
		}
		for _, ev := range slices.Backward(events) {
			ev.Ack()
		}
		if st := s.Status().Checkpoint; st.Unacked != 0 {
			t.Errorf("all is acked, and %d wait", st.Unacked)
		}
		if err := tracker.Close(); err != nil {
			t.Fatal(err)
		}
		p := position(t, store)
		for _, o := range p.Objects {
			if o.ResourceVersion == "" {
				t.Errorf("%s is kept as not acked", o.Name)
			}
		}
		if len(p.Objects) != 2 || p.ResourceVersions[""] != srv.ResourceVersion() {
			t.Errorf("%d objects are kept, at %v, want 2 at %s", len(p.Objects), p.ResourceVersions, srv.ResourceVersion())
		}
	})
}
