package mux_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestLatestCheckpointIsBounded: coalesced events take no memory in the checkpoint, however long the loop body runs,
// and once every event is acked, none waits.
func TestLatestCheckpointIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets())
		srv.Put(widgets(), "default", "a")
		store := &checkpoint.Memory{}
		tracker := scenario.NewTracker(t, store)
		s := newStream(t, srv, widgets(), nil).With(stream.Run{Checkpoint: tracker})
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
					t.Errorf("%d events wait for an ack; 2 are delivered and 2 queued", st.Unacked)
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
			t.Errorf("all events are acked, and %d wait", st.Unacked)
		}
		if err := tracker.Close(); err != nil {
			t.Fatal(err)
		}
		p := scenario.PositionIn(t, store, widgets())
		for _, o := range p.Objects {
			if o.ResourceVersion == "" {
				t.Errorf("%s is stored as not acked", o.Name)
			}
		}
		if len(p.Objects) != 2 || p.ResourceVersions[""] != srv.ResourceVersion() {
			t.Errorf("%d objects are stored, at %v, want 2 at %s", len(p.Objects), p.ResourceVersions,
				srv.ResourceVersion())
		}
	})
}

// ADDED and DELETED do not cancel out for an object that an earlier run may have delivered.
func TestDeletedSurvivesCoalescingAfterAKill(t *testing.T) {
	for _, store := range []checkpoint.Store{&checkpoint.Memory{},
		scenario.PositionsOnly{Memory: &checkpoint.Memory{}}} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets())
			run := func(on func(stream.Event) (more bool)) {
				m := newMux(t, nil)
				tracker := scenario.NewTracker(t, store)
				defer tracker.Close()
				add(t, m, newStream(t, srv, widgets(), nil).With(stream.Run{Checkpoint: tracker}),
					&mux.SourceOptions{Overflow: mux.Latest})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for ev, err := range m.Events(ctx) {
					if err != nil || !on(ev) {
						break
					}
					ev.Ack()
				}
			}
			run(func(ev stream.Event) bool {
				if ev.Type == stream.Synced {
					time.AfterFunc(10*time.Second, func() { srv.Put(widgets(), "one", "a") })
				}
				return ev.Object == nil // else the object is delivered, and not acked
			})
			deleted := false
			run(func(ev stream.Event) bool {
				if ev.Type == stream.Synced {
					srv.Delete(widgets(), "one", "a")
					time.Sleep(10 * time.Second)
				}
				deleted = deleted || ev.Type == stream.Deleted
				return true
			})
			if !deleted {
				t.Errorf("%T: DELETED of a, which was delivered, is missing", store)
			}
		})
	}
}
