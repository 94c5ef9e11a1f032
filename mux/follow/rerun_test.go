package follow_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// What happened in the first run does not matter.
func TestSecondRunStartsFromTheBeginning(t *testing.T) {
	tests := []struct {
		name    string
		options stream.Options
		run     stream.Run
		during  func(*follower) // the first run
		first   follow.State    // of robots, at the end of it
		between func(*follower)
		state   follow.State // of robots, in the second run
		in      []string
		want    []string // of robots, in the second run
		why     string
	}{
		{"unchanged", stream.Options{}, stream.Run{}, nil, follow.Watching, nil, follow.Watching, nil,
			[]string{"ADDED one/a@3", "SYNCED @4"}, "everything is delivered again"},
		{"forbidden", stream.Options{}, stream.Run{},
			func(f *follower) { f.do("robots forbid all", "robots close watches") },
			follow.Forbidden, nil,
			follow.Forbidden, nil, nil, "the second run finds out that the resource is forbidden"},
		{"forbidden, and allowed in between", stream.Options{}, stream.Run{},
			func(f *follower) { f.do("robots forbid all", "robots close watches") }, follow.Forbidden,
			func(f *follower) { f.do("robots allow") }, follow.Watching, nil, []string{"ADDED one/a@3",
				"SYNCED @4"}, "a refusal in the first run does not count"},
		{"in a namespace, and then in another", stream.Options{}, stream.Run{}, func(f *follower) {
			f.do("robots forbid all", "robots allow all in two", "robots close watches")
		}, follow.Forbidden, func(f *follower) { f.do("robots forbid all in two", "robots allow all in one") },
			follow.Forbidden, []string{"one"}, []string{"ADDED one/a@3",
				"SYNCED @4 in one"}, "rights of the first run do not count"},
		{"removed in between", stream.Options{}, stream.Run{}, nil, follow.Watching,
			func(f *follower) { f.srv.Unserve(robots) },
			follow.Gone, nil, nil, "a type that is not served is not watched"},
		{"gone, and back", stream.Options{}, stream.Run{}, func(f *follower) { f.do("robots delete crd") }, follow.Gone,
			func(f *follower) { f.do("robots create crd") },
			follow.Watching, nil, []string{"SYNCED @7"}, "a type that was gone is watched from the beginning"},
		{"let go, and back", stream.Options{}, stream.Run{}, func(f *follower) {
			f.do("robots delete crd")
			time.Sleep(10 * time.Minute)
		}, "", func(f *follower) { f.do("robots create crd") },
			follow.Watching, nil, []string{"SYNCED @7"}, "also if it was let go"},
		{"removed by the caller", stream.Options{}, stream.Run{},
			func(f *follower) { f.m.Remove("robots.example.com") },
			follow.Dropped, nil,
			follow.Watching, nil, []string{"ADDED one/a@3", "SYNCED @4"}, "Remove holds until the next run"},
		{"failed", stream.Options{}, stream.Run{FailOnGap: true}, func(f *follower) {
			f.srv.Put(robots, "one", "b")
			f.srv.Put(robots, "one", "b", "spec.n=2")
			time.Sleep(time.Minute)
			f.do("rewind 2 restart")
			time.Sleep(time.Hour)
		}, follow.Watching, func(f *follower) { f.do("heal") }, follow.Watching, nil,
			[]string{"ADDED one/a@3", "SYNCED @4"}, "the position of a failed run is not resumed"},
		{"gave up", stream.Options{Requests: stream.Requests{GiveUpAfter: time.Minute}}, stream.Run{},
			func(f *follower) {
				f.apply("robots list *: 503\nrobots probe *: 503\nrobots watch *: 503\nrobots initial *: 503")
				f.do("robots close watches")
				time.Sleep(time.Hour)
			}, follow.Watching, func(f *follower) { f.do("heal") }, follow.Watching, nil,
			[]string{"ADDED one/a@3", "SYNCED @4"}, "nor is that of one that gave up"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(robots, spaces).WithReviews()
				srv.Put(spaces, "", "one")
				srv.Put(robots, "one", "a")
				srv.Put(spaces, "", "two")
				f := newFollower(t, srv, follow.Selection{Resources: []string{"robots.*"}},
					&follow.Options{Source: watchedWith(tt.options, tt.run)})
				f.start(t.Context())
				f.after(time.Minute, "the first run", "robots.example.com ADDED one/a@3",
					"robots.example.com SYNCED @4")
				if tt.during != nil {
					tt.during(f)
					time.Sleep(time.Minute)
				}
				if got := f.status("robots.example.com").State; got != tt.first {
					t.Errorf("%s: in the first run the state is %s, want %s", tt.why, got, tt.first)
				}
				f.m.Stop()
				var failed *mux.SourceError
				fails := tt.run.FailOnGap || tt.options.Requests.GiveUpAfter > 0
				if err := <-f.ended; errors.As(err, &failed) != fails {
					t.Errorf("the first run ended with %v", err)
				}
				f.take()
				if tt.between != nil {
					tt.between(f)
				}
				f.start(t.Context())
				time.Sleep(4 * time.Minute)
				is := f.status("robots.example.com")
				if is.State != tt.state || !slices.Equal(is.Namespaces, tt.in) {
					t.Errorf("%s: the state is %s in %q, want %s in %q", tt.why, is.State, is.Namespaces, tt.state,
						tt.in)
				}
				if is.Incarnation != 1 || slices.Contains(f.reported(), "robots.example.com Dropped") {
					t.Errorf("%s: the incarnation is %d, reported: %q", tt.why, is.Incarnation, f.reported())
				}
				var want []string
				for _, line := range tt.want {
					want = append(want, "robots.example.com "+line)
				}
				if diff := cmp.Diff(want, f.take()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", tt.why, diff)
				}
				f.stop()
			})
		})
	}
}

// The rule holds for the rest of the run.
func TestRemovedResourceIsNotAttachedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}}, nil)
		f.start(t.Context())
		f.after(time.Minute, "attached", "robots.example.com SYNCED @1")
		if !f.m.Remove("robots.example.com") {
			t.Error("the resource was no source")
		}
		short := robots
		short.ShortNames = []string{"rb"}
		srv.Serve(short)
		srv.Put(robots, "one", "a")
		f.after(10*time.Minute, "a change of its names does not attach it")
		if got := f.state("robots.example.com"); got != "Dropped" {
			t.Errorf("the state is %s, want Dropped", got)
		}
		f.stop()
	})
}

// Events are repeated even if the Store is still empty.
func TestVersionChangeRepeatsUnackedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots)
		srv.Put(robots, "one", "a")
		f := unacked(t, srv, stream.Run{})
		f.start(t.Context())
		f.after(time.Minute, "nothing is acked", "robots.example.com ADDED one/a@2", "robots.example.com SYNCED @2")
		srv.Serve(robotsV2)
		srv.Unserve(robots)
		f.after(time.Minute, "so the object is delivered again", "robots.example.com GAP restarted ..2 history lost",
			"robots.example.com ADDED one/a@2 inferred", "robots.example.com SYNCED @2")
		f.stop()
	})
}

// Start: Now does not count for a type that is served later, even if nothing was acked when its version changes.
func TestNowDoesNotCountForLaterTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(planets)
		f := unacked(t, srv, stream.Run{Start: stream.Now()})
		f.start(t.Context())
		time.Sleep(time.Minute)
		srv.Serve(robots)
		f.after(time.Minute, "nothing is acked", "robots.example.com SYNCED @1")
		srv.Serve(robotsV2)
		srv.Unserve(robots)
		time.Sleep(4 * time.Second)
		srv.Put(robotsV2, "one", "a") // while acks are waited for
		f.after(time.Minute, "the object is new", "robots.example.com GAP restarted ..2 history lost",
			"robots.example.com ADDED one/a@2 inferred", "robots.example.com SYNCED @2")
		f.stop()
	})
}

// A run that begins because rights have changed does not begin Now again, even if nothing was acked.
func TestRightsChangeDoesNotBeginNowAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, spaces).WithReviews()
		srv.Put(spaces, "", "one")
		srv.Put(robots, "one", "a")
		f := unacked(t, srv, stream.Run{Start: stream.Now()})
		f.do("robots forbid all", "robots allow all in one")
		f.start(t.Context())
		f.after(time.Minute, "nothing is acked", "robots.example.com SYNCED @3 in one")
		f.do("robots allow")
		for i := range 20 { // some of them between the two runs
			srv.Put(robots, "one", fmt.Sprint("new", i))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		f.stop()
		all := strings.Join(f.take(), "\n")
		for i := range 20 {
			if added := fmt.Sprintf("ADDED one/new%d@", i); !strings.Contains(all, added) {
				t.Errorf("%s was not delivered:\n%s", added, all)
			}
		}
	})
}

// TestRetryAfterAPanicMissesNothing: a resource that is followed from Now, and retried after a panic, begins with a
// snapshot.
func TestRetryAfterAPanicMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots)
		panicked := false
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots.*"}}, &follow.Options{
			Mux: mux.Options{OnError: func(string, error) mux.Decision { return mux.Retry }},
			Source: watchedWith(stream.Options{Transform: func(o *unstructured.Unstructured) {
				if !panicked {
					panicked = true
					srv.Put(robots, "one", "b")
					panic("a mistake")
				}
			}}, stream.Run{Start: stream.Now()}),
		})
		f.start(t.Context())
		f.after(time.Minute, "it begins Now", "robots.example.com SYNCED @1")
		srv.Put(robots, "one", "a")
		f.after(time.Minute, "nothing is skipped",
			"robots.example.com ADDED one/a@2", "robots.example.com ADDED one/b@3", "robots.example.com SYNCED @3")
		f.stop()
	})
}

// unacked follows robots with a Store of positions.
func unacked(t *testing.T, srv *streamtest.Server, run stream.Run) *follower {
	tracker := scenario.NewTracker(t, scenario.PositionsOnly{Memory: &checkpoint.Memory{}})
	t.Cleanup(func() { _ = tracker.Close() })
	run.Checkpoint = tracker
	return newFollower(t, srv, follow.Selection{Resources: []string{"robots.*"}},
		&follow.Options{Source: watchedWith(stream.Options{}, run)})
}

// No more resources are listed at once than mux.Options.ConcurrentSnapshots says.
func TestConcurrentSnapshotsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, rovers, planets)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}}, &follow.Options{
			Mux:    mux.Options{ConcurrentSnapshots: 1},
			Source: watchedWith(stream.Options{Requests: stream.Requests{PagedLists: true}}, stream.Run{}),
		})
		f.apply("list *: slow 1s")
		f.start(t.Context())
		time.Sleep(time.Minute)
		f.stop()
		at := map[time.Duration]string{}
		for _, q := range srv.Requests() {
			if began := q.At.Sub(f.began); q.Verb == "list" && !q.IsProbe() {
				if at[began] != "" {
					t.Errorf("at %v both %s and %s are listed", began, at[began], q.Resource)
				}
				at[began] = q.Resource
			}
		}
		if len(at) != 3 {
			t.Errorf("lists: %v, want three", at)
		}
	})
}
