package stream_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Once a namespace has delivered some of its differences to the cluster, a run of the cluster can't resume at the
// cluster's version.
func TestInterruptedScopeChangeReportsAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, nil)
		m.put("one", "a", "spec.n=1") // @2
		m.put("one", "b", "spec.n=1") // @3
		m.begin(nil)
		m.expect("the cluster is listed", "ADDED one/a@2", "ADDED one/b@3", "SYNCED @3")
		p := *m.end()
		m.put("one", "a", "spec.n=2")       // @4
		m.srv.Delete(widgets(), "one", "a") // @5
		m.put("one", "c", "spec.n=1")       // @6
		r := host.Run{
			Namespaces: host.NewNamespaces([]string{"one"}, nil),
			Start:      func() *checkpoint.Position { return &p },
		}
		for ev := range m.stream.Host(t.Context(), r) {
			if ev.Type == stream.Deleted { // after GAP and c
				p = m.stream.Position()
				break
			}
		}
		m.begin(&p)
		m.expect("the cluster reports a GAP", "GAP scope 3..6", "SYNCED @6")
		m.end()
	})
}

// The acked events of a namespace are committed even if another namespace never starts.
func TestForbiddenNamespaceDelaysNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, store := newMover(t, nil), &checkpoint.Memory{}
		m.do("forbid all in two")
		for _, run := range []struct {
			change func()
			want   []string
		}{
			{func() { m.put("one", "c", "spec.n=1") }, []string{"SYNCED", "ADDED one/c@2"}},
			{func() {}, []string{"SYNCED", "DELETED one/c@3"}},
		} {
			tracker := m.track(store, setup{Run: stream.Run{Start: stream.Now()}})
			m.begin(nil, "one", "two")
			time.Sleep(time.Minute)
			run.change()
			m.expect("the run resumes after the acked events", run.want...)
			time.Sleep(time.Minute)
			m.end()
			noError(t, tracker.Close())
			m.srv.Delete(widgets(), "one", "c")
		}
	})
}

// A namespace that is not watched while the server goes back in time is compared when it is watched again, even if the
// server has passed the namespace's version by then.
func TestRewoundNamespaceIsComparedOnceWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, store := newMover(t, nil), &checkpoint.Memory{}
		tracker := m.track(store, setup{})
		m.put("two", "y", "spec.n=1") // @2
		m.put("one", "a", "spec.n=1") // @3, which the rewind undoes
		m.begin(nil, "one", "two")
		m.expect("both namespaces are listed", "ADDED two/y@2", "ADDED one/a@3", "SYNCED")
		m.namespaces.Set([]string{"two"})
		time.Sleep(time.Second)
		m.do("rewind 1 restart")
		time.Sleep(20 * time.Second)
		m.expect("the watched namespace reports the rewind",
			"GAP rewound 3..2 in two", "MODIFIED two/y@2 inferred", "SYNCED")
		m.put("two", "y", "spec.n=2") // @3
		m.put("two", "y", "spec.n=3")
		m.expect("the server passes the old version", "MODIFIED two/y@3", "MODIFIED two/y@4")
		noError(t, tracker.Flush(t.Context()))
		if c, err := store.Load(t.Context(), "widgets.example.com"); err != nil || !c.Position.Rewound {
			t.Errorf("the checkpoint does not say that the server has gone back in time: %+v, %v", c, err)
		}
		m.namespaces.Set([]string{"one", "two"})
		m.expect("the other namespace is compared", "GAP rewound 3..4 in one", "DELETED one/a@3 inferred", "SYNCED")
		m.end()
		_ = tracker.Close()
	})
}

// The namespace becomes forbidden after the workers of the others have ended.
func TestForbiddenNamespaceDoesNotPreventSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, &setup{Run: stream.Run{Until: stream.UntilSynced}})
		m.put("one", "a", "spec.n=1")
		m.apply("initial * in two: 503\nlist * in two: 503")
		m.begin(nil, "one", "two")
		time.Sleep(100 * time.Millisecond)
		m.do("heal")
		m.do("forbid all in two")
		time.Sleep(time.Minute)
		m.expect("SYNCED does not wait for the forbidden namespace", "ADDED one/a@2", "SYNCED")
	})
}

// The position may have a higher version of the cluster, from before the server went back in time.
func TestNamespaceResumesAtItsOwnVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, nil)
		m.put("one", "a", "spec.n=1") // @2
		m.put("one", "b", "spec.n=1") // @3, after the namespace's version
		p := &checkpoint.Position{
			ResourceVersions: map[string]string{"": "9", "one": "2"},
			Objects: []checkpoint.Object{
				{Namespace: "one", Name: "a", UID: "00000000-0000-4000-8000-000000000001", ResourceVersion: "2"},
			},
		}
		m.begin(p, "one")
		m.expect("the namespace resumes at its version", "SYNCED @2 in one", "ADDED one/b@3")
		m.end()
	})
}

// The cluster is not watched beside a namespace.
func TestDuplicateNamespaceIsWatchedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, nil)
		m.put("one", "a", "spec.n=1")
		m.begin(nil, "one", "one")
		m.expect("a namespace named twice is watched once", "ADDED one/a@2", "SYNCED @2 in one")
		m.namespaces.Set([]string{"one", "", "one"})
		m.expect("no other watch starts for a duplicate or the cluster")
		m.end()
		m.do("forbid all in two")
		var err error
		o := host.Run{Namespaces: host.NewNamespaces([]string{"two"}, nil)}
		for _, err = range m.stream.Host(t.Context(), o) {
		}
		if _, refused := err.(*stream.RequestError); !refused {
			t.Errorf("a forbidden namespace without a callback: %v, want a *RequestError", err)
		}
	})
}

// With a Store that keeps no objects, a run does not assume that it knows all objects.
func TestPositionsOnlyStoreKnowsNoObjects(t *testing.T) {
	for _, tt := range []struct {
		kill, compact bool
		want          []string
		why           string
	}{
		{false, false, []string{"SYNCED 2", "DELETED a/00000000-0000-4000-8000-000000000001@3"},
			"a second run in the same process resumes after the acked events, before they are committed"},
		{false, true, []string{
			"GAP expired from 2 to 4 history lost",
			"ADDED b/00000000-0000-4000-8000-000000000002@4 inferred", "SYNCED 4",
		}, "when its version has expired, such a run reports lost history"},
		{true, false, []string{"GAP restarted from  to 3 history lost", "SYNCED 3"},
			"a run after a kill before the first commit of an ack reports lost history"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets())
			srv.Put(widgets(), "one", "a")
			saved := &checkpoint.Memory{}
			var s *running
			begin := func() *killable {
				k := &killable{Store: saved}
				tracker := newTracker(t, positionsOnly{k}, checkpoint.Options{Interval: time.Hour})
				s = newStream(t, srv.Client(), &setup{Run: stream.Run{Checkpoint: tracker}})
				return k
			}
			k := begin()
			for ev := range stream.Acked(s.Events(t.Context())) {
				if ev.Type == stream.Synced {
					ev.Ack()
					break
				}
				if tt.kill {
					k.kill()
				}
			}
			if tt.kill {
				begin()
			}
			srv.Delete(widgets(), "one", "a")
			if tt.compact {
				srv.Put(widgets(), "one", "b")
				noError(t, srv.Do("compact"))
			}
			if diff := cmp.Diff(tt.want, record(t, s, time.Minute)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}
