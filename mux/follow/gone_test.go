package follow_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestTypesThatAreGoneLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(t, streamtest.NewServer(planets),
			follow.Selection{Resources: []string{"*.example.com", "planets", "robots"}}, nil)
		f.start(t.Context())
		time.Sleep(time.Minute)
		before := runtime.NumGoroutine()
		churn := []gvr.Resource{robots}
		for i := range 300 {
			churn = append(churn, kindOf(fmt.Sprintf("things%03dxs", i), "example.com", "v1", true))
		}
		for _, r := range churn {
			f.srv.Serve(r)
			f.srv.Put(r, "one", "a")
			time.Sleep(3 * time.Second)
			f.do(r.Resource + " delete crd")
			time.Sleep(3 * time.Second)
		}
		time.Sleep(6 * time.Minute)
		var got []string
		for _, s := range f.m.Status().Resources {
			got = append(got, fmt.Sprint(s.Ref, " ", s.State))
		}
		if diff := cmp.Diff([]string{"robots Unserved", "planets Watching"}, got); diff != "" {
			t.Errorf("what is followed (-want +got):\n%s", diff)
		}
		if n := len(f.m.Status().Sources); n != 1 {
			t.Errorf("%d sources are left, want 1", n)
		}
		if after := runtime.NumGoroutine(); after > before+10 {
			t.Errorf("%d goroutines, %d before", after, before)
		}
		if n, want := len(f.take()), 1+len(churn)*3; n != want { // ADDED, SYNCED and DELETED of each
			t.Errorf("%d events, want %d", n, want)
		}
		f.stop()
	})
}

// The sequence of a resource that is served again goes on, whether its source was let go meanwhile or not.
func TestSequenceContinuesAfterAnyTimeGone(t *testing.T) {
	remove := func(f *follower) { f.do("robots delete crd") }
	hide := func(f *follower) { f.srv.Unserve(robots) }
	tests := []struct {
		name string
		away func(*follower)
		back func(*follower)
		want []string
		why  string
	}{
		{"CRD deleted", remove, func(f *follower) { f.do("robots create crd") }, []string{"DELETED one/a@4",
			"DELETED one/b@5", "GAP expired 5..7", "SYNCED @7"}, "each object is DELETED once"},
		{"other objects", remove, func(f *follower) {
			f.do("robots create crd")
			f.srv.Put(robots, "one", "a")
		}, []string{"DELETED one/a@4", "DELETED one/b@5", "GAP expired 5..8", "ADDED one/a@8 inferred", "SYNCED @8"},
			"an object with the name of a deleted one is ADDED"},
		{"unchanged", hide, func(f *follower) { f.srv.Serve(robots) }, nil, "nothing is repeated"},
		{"deletion that was not seen", hide, func(f *follower) {
			f.srv.Serve(robots)
			_, _ = f.srv.Delete(robots, "one", "a")
		}, []string{"DELETED one/a@4"}, "a deletion is delivered when the resource is back"},
		{"deletion that was not seen, expired", hide, func(f *follower) {
			f.srv.Serve(robots)
			_, _ = f.srv.Delete(robots, "one", "a")
			f.do("robots expire")
		}, []string{"GAP expired 3..4", "DELETED one/a@2 inferred", "SYNCED @4"}, "also if its version has expired"},
	}
	for _, tt := range tests {
		for _, gone := range []time.Duration{time.Minute, 10 * time.Minute} {
			for _, tracked := range []bool{false, true} {
				t.Run(fmt.Sprint(tt.name, " ", gone, " checkpoint ", tracked), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var run stream.Run
						if tracked {
							run.Checkpoint = scenario.NewTracker(t, &checkpoint.Memory{})
							defer run.Checkpoint.Close()
						}
						srv := streamtest.NewServer(robots, planets)
						srv.Put(robots, "one", "a")
						f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}},
							&follow.Options{Source: watchedWith(stream.Options{}, run)})
						f.handle = func(ev stream.Event) { ev.Ack() }
						f.start(t.Context())
						time.Sleep(time.Minute)
						srv.Put(robots, "one", "b")
						time.Sleep(70 * time.Second) // not when a bookmark is due
						f.take()
						tt.away(f)
						time.Sleep(gone)
						if there := f.status("robots.example.com").State; (there == "") != (gone > 6*time.Minute) {
							t.Errorf("the state is %q after %v", there, gone)
						}
						tt.back(f)
						time.Sleep(time.Minute)
						var want []string
						for _, line := range tt.want {
							want = append(want, "robots.example.com "+line)
						}
						if diff := cmp.Diff(want, f.take()); diff != "" {
							t.Errorf("%s (-want +got):\n%s", tt.why, diff)
						}
						if is := f.status("robots.example.com"); is.State != follow.Watching || is.Incarnation != 2 {
							t.Errorf("the state is %s, incarnation %d", is.State, is.Incarnation)
						}
						f.stop()
					})
				})
			}
		}
	}
}

// A resource that is not a source any more is let go as well, but is not attached again in this run.
func TestDroppedTypeLeavesNothingWhenItIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(t, streamtest.NewServer(robots, planets), follow.Selection{Resources: []string{"*"}},
			&follow.Options{
				Source: func(r gvr.Resource) (o stream.Options, run stream.Run) {
					if r.Group == robots.Group {
						run.Until = stream.UntilSynced // refused
					}
					return o, run
				},
				Mux: mux.Options{OnError: func(string, error) mux.Decision { return mux.Drop }},
			})
		f.start(t.Context())
		for i, want := range []follow.State{"Dropped", "", "Dropped", ""} {
			if time.Sleep(10 * time.Minute); f.status("robots.example.com").State != want {
				t.Errorf("step %d: the state is %q, want %q", i, f.state("robots.example.com"), want)
			}
			if want == "" {
				f.srv.Serve(robots)
			} else {
				f.srv.Unserve(robots)
			}
		}
		f.stop()
	})
}

// A name whose resource cannot be watched any more is Unserved, with the cause, once the resource is let go.
func TestTypeThatLosesItsVerbsIsNotFollowedUntilItHasThem(t *testing.T) {
	for _, gone := range []time.Duration{time.Minute, 10 * time.Minute} {
		t.Run(gone.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(robots)
				f := newFollower(t, srv, follow.Selection{Resources: []string{"robots.example.com"}}, nil)
				f.start(t.Context())
				f.after(time.Minute, "the resource can be watched", "robots.example.com SYNCED @1")
				want := follow.Gone
				if gone > 6*time.Minute {
					want = follow.Unserved
				}
				r := robots
				r.Verbs = []string{"get", "list"}
				for _, d := range []time.Duration{gone, time.Minute} { // the second change comes after it is let go
					srv.Serve(r)
					f.after(d, "nothing can be watched")
					r.ShortNames = []string{"rb"}
					var notWatchable *stream.NotWatchableError
					if is := f.m.Status().Resources[0]; is.State != want || !errors.As(is.Cause, &notWatchable) {
						t.Errorf("the state is %s: %v", is.State, is.Cause)
					}
				}
				srv.Put(robots, "one", "a")
				srv.Serve(robots)
				f.after(time.Minute, "the sequence goes on", "robots.example.com ADDED one/a@2")
				f.stop()
			})
		})
	}
}

// What the loop has not received yet is not discarded.
func TestGoneTypeWaitsForASlowLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, planets)
		srv.Put(robots, "one", "a")
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}}, nil)
		f.handle = func(ev stream.Event) {
			if ev.Resource.Resource == "planets" && ev.Type == stream.Added {
				time.Sleep(time.Hour)
			}
		}
		f.start(t.Context())
		time.Sleep(time.Minute)
		f.take()
		srv.Put(planets, "", "mars")
		time.Sleep(time.Second)
		f.do("robots delete crd")
		time.Sleep(30 * time.Minute)
		if got := f.state("robots.example.com"); got != "Gone" {
			t.Errorf("the state is %q before DELETED is delivered", got)
		}
		f.after(time.Hour, "DELETED is delivered", "planets.space.io ADDED mars@3",
			"robots.example.com DELETED one/a@4")
		if got := f.state("robots.example.com"); got != "" {
			t.Errorf("the state is %q, want none", got)
		}
		f.stop()
	})
}
