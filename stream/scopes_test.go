package stream_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/run"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestScopeChangeInterrupted: once a namespace has begun to deliver what is different since the
// cluster was watched, the cluster can't go on at its version.
func TestScopeChangeInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, nil)
		m.put("one", "a", "spec.n=1") // @2
		m.put("one", "b", "spec.n=1") // @3
		m.begin(nil)
		m.expect("the cluster", "ADDED one/a@2", "ADDED one/b@3", "SYNCED @3")
		p := *m.end()
		m.put("one", "a", "spec.n=2")       // @4
		m.srv.Delete(widgets(), "one", "a") // @5
		m.put("one", "c", "spec.n=1")       // @6
		r := run.Options{Namespaces: run.NewNamespaces([]string{"one"}, nil), Start: func() *checkpoint.Position { return &p }}
		for ev := range m.stream.EventsWith(t.Context(), r) {
			if ev.Type == stream.Deleted { // after GAP and c
				p = m.stream.Position()
				break
			}
		}
		m.begin(&p)
		m.expect("the cluster again", "GAP scope 3..6", "SYNCED @6")
		m.end()
	})
}

// TestStartNowBesideForbiddenNamespace: what is acked of one is kept, though the other one
// never begins.
func TestStartNowBesideForbiddenNamespace(t *testing.T) {
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
			tracker := m.track(store, stream.Options{Start: stream.Now()})
			m.begin(nil, "one", "two")
			time.Sleep(time.Minute)
			run.change()
			m.expect("a run", run.want...)
			time.Sleep(time.Minute)
			m.end()
			noError(t, tracker.Close())
			m.srv.Delete(widgets(), "one", "c")
		}
	})
}

// TestRewoundWhileNotWatched: a namespace that is not watched while another one finds that
// the server has gone back in time is compared when it is watched again, though the
// server has passed its version by then.
func TestRewoundWhileNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, store := newMover(t, nil), &checkpoint.Memory{}
		tracker := m.track(store, stream.Options{})
		m.put("two", "y", "spec.n=1") // @2
		m.put("one", "a", "spec.n=1") // @3, which is undone
		m.begin(nil, "one", "two")
		m.expect("both", "ADDED two/y@2", "ADDED one/a@3", "SYNCED")
		m.namespaces.Set([]string{"two"})
		time.Sleep(time.Second)
		m.do("rewind 1 restart")
		time.Sleep(20 * time.Second)
		m.expect("one of them", "GAP rewound 3..2 in two", "MODIFIED two/y@2 inferred", "SYNCED")
		m.put("two", "y", "spec.n=2") // @3
		m.put("two", "y", "spec.n=3")
		m.expect("it goes on", "MODIFIED two/y@3", "MODIFIED two/y@4")
		noError(t, tracker.Flush(t.Context()))
		if c, err := store.Load(t.Context(), "widgets.example.com"); err != nil || !c.Position.Rewound {
			t.Errorf("another run would not be told: %+v, %v", c, err)
		}
		m.namespaces.Set([]string{"one", "two"})
		m.expect("the other one", "GAP rewound 3..4 in one", "DELETED one/a@3 inferred", "SYNCED")
		m.end()
		_ = tracker.Close()
	})
}

// TestUntilSyncedBesideForbiddenNamespace: SYNCED comes though a namespace is refused after the others
// have ended.
func TestUntilSyncedBesideForbiddenNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, &stream.Options{UntilSynced: true})
		m.put("one", "a", "spec.n=1")
		m.apply("initial * in two: 503\nlist * in two: 503")
		m.begin(nil, "one", "two")
		time.Sleep(100 * time.Millisecond)
		m.do("heal")
		m.do("forbid all in two")
		time.Sleep(time.Minute)
		m.expect("one of them", "ADDED one/a@2", "SYNCED")
	})
}

// TestRewoundBelowTheCluster: a namespace goes on at its own version, though the cluster
// was watched at a higher one before the server went back in time.
func TestRewoundBelowTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, nil)
		m.put("one", "a", "spec.n=1") // @2
		m.put("one", "b", "spec.n=1") // @3, which is undone
		p := &checkpoint.Position{ResourceVersions: map[string]string{"": "9", "one": "2"}, Objects: []checkpoint.Object{
			{Namespace: "one", Name: "a", UID: "00000000-0000-4000-8000-000000000001", ResourceVersion: "2"}}}
		m.begin(p, "one")
		m.expect("it goes on", "SYNCED @2 in one", "ADDED one/b@3")
		m.end()
	})
}

// TestDuplicateNamespaces: each is watched once, and the cluster beside none.
func TestDuplicateNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMover(t, nil)
		m.put("one", "a", "spec.n=1")
		m.begin(nil, "one", "one")
		m.expect("twice", "ADDED one/a@2", "SYNCED @2 in one")
		m.namespaces.Set([]string{"one", "", "one"})
		m.expect("nothing new")
		m.end()
		m.do("forbid all in two")
		var err error
		for _, err = range m.stream.EventsWith(t.Context(), run.Options{Namespaces: run.NewNamespaces([]string{"two"}, nil)}) {
		}
		if _, refused := err.(*stream.RequestError); !refused {
			t.Errorf("refused, and nobody to be told: %v, want a *RequestError", err)
		}
	})
}

// TestPositionsOnly: a Store without objects does not make a range believe that it knows
// of all.
func TestPositionsOnly(t *testing.T) {
	for _, tt := range []struct {
		kill, compact bool
		want          []string
		why           string
	}{
		{false, false, []string{"SYNCED 2", "DELETED a/00000000-0000-4000-8000-000000000001@3"}, "the same process, before what was acked is committed"},
		{false, true, []string{"SYNCED 2", "GAP expired from 2 to 4 history lost", "ADDED b/00000000-0000-4000-8000-000000000002@4 inferred", "SYNCED 4"}, "likewise, and the history is gone"},
		{true, false, []string{"GAP restarted from  to 3 history lost", "SYNCED 3"}, "killed before the first commit of an ack"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(widgets())
			srv.Put(widgets(), "one", "a")
			saved := &checkpoint.Memory{}
			var s *stream.Stream
			begin := func() *killable {
				k := &killable{Store: saved}
				tracker := newTracker(t, positionsOnly{k}, checkpoint.Options{Interval: time.Hour})
				s = newStream(t, srv.Client(), &stream.Options{Checkpoint: tracker})
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
