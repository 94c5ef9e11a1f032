package mux_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Sources that watch the same share one watch; one that joins later is told what
// there is, and what follows, without a hole and without a repeat.
func TestSourcesShareAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots)
		client := srv.Client()
		robot := func() mux.Source {
			s, err := stream.New(client, robots, nil)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		m, err := mux.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"first", "second"} {
			if err := m.Add(robot(), &mux.SourceOptions{Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		srv.Put(robots, "one", "a", "spec.n=1")
		go func() {
			for n := range 200 {
				time.Sleep(50 * time.Millisecond)
				srv.Put(robots, "one", string(rune('a'+n%7)), "spec.n="+string(rune('0'+n%10)))
				if n == 100 {
					if err := m.Add(robot(), &mux.SourceOptions{Key: "third"}); err != nil {
						t.Error(err)
					}
				}
			}
			time.Sleep(5 * time.Second)
			m.Stop()
		}()
		var events []stream.Event
		for ev, err := range m.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, ev)
		}
		h := srv.History(robots, streamtest.Scope{})
		by := streamtest.BySource(events)
		for _, key := range []string{"first", "second", "third"} {
			if err := streamtest.Check(h, by[key], &streamtest.CheckOptions{Settled: true}); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		watches := 0
		for _, q := range h.Requests {
			if q.Verb == "watch" {
				watches++
			}
		}
		if diff := cmp.Diff(1, watches); diff != "" {
			t.Errorf("three sources watch the same (-want +got watches):\n%s", diff)
		}
	})
}
