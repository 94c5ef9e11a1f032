package follow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// inNamespaces follows robots, one in each namespace, that may be watched in these namespaces only.
func inNamespaces(t *testing.T, opts *follow.Options, names ...string) *follower {
	srv := streamtest.NewServer(robots, spaces).WithReviews()
	f := newFollower(t, srv, follow.Selection{Resources: []string{"robots", "rovers"}}, opts)
	f.do("robots forbid all")
	for _, n := range names {
		srv.Put(spaces, "", n)
		srv.Put(robots, n, "a")
		f.do("robots allow all in " + n)
	}
	return f
}

// within waits until a condition holds, and fails if that takes too long.
func (f *follower) within(d time.Duration, why string, holds func() bool) {
	f.Helper()
	began := time.Now()
	for !holds() {
		if time.Since(began) > d {
			f.Errorf("after %v: %s\n%+v", d, why, f.m.Status().Resources)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (f *follower) watchedIn(names ...string) func() bool {
	return func() bool { return slices.Equal(f.status("robots.example.com").Namespaces, names) }
}

// A deleted namespace is watched until DELETED of all its objects has been delivered.
func TestDeletedNamespaceIsWatchedToItsEnd(t *testing.T) {
	tests := []struct {
		name   string
		change func(*follower) // of namespace two
		want   []string
		why    string
	}{
		{"empty", func(f *follower) {
			_, _ = f.srv.Delete(robots, "two", "a")
			time.Sleep(time.Second)
			_, _ = f.srv.Delete(spaces, "", "two")
		}, []string{"DELETED two/a"}, "an empty namespace is not waited for"},
		{"before its objects", func(f *follower) {
			_, _ = f.srv.Delete(spaces, "", "two")
			time.Sleep(time.Minute)
			if !f.watchedIn("one", "two")() {
				f.Errorf("the namespaces are %q, and two still has an object",
					f.status("robots.example.com").Namespaces)
			}
			_, _ = f.srv.Delete(robots, "two", "a")
		}, []string{"DELETED two/a"}, "DELETED of its objects is waited for"},
		{"with the right to watch it", func(f *follower) {
			f.do("robots forbid all in two", "robots close watches")
			_, _ = f.srv.Delete(spaces, "", "two")
			_, _ = f.srv.Delete(robots, "two", "a")
		}, nil, "a namespace that may not be watched is not waited for"},
		{"before the right to watch it", func(f *follower) {
			_, _ = f.srv.Delete(spaces, "", "two")
			time.Sleep(time.Minute)
			f.do("robots forbid all in two", "robots close watches")
		}, nil, "also if the namespace is deleted first"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := inNamespaces(t, nil, "one", "two")
				f.start(t.Context())
				f.within(15*time.Second, "the resource is watched where that is allowed", f.watchedIn("one", "two"))
				time.Sleep(10 * time.Second)
				f.take()
				tt.change(f)
				f.within(20*time.Second, tt.why, f.watchedIn("one"))
				time.Sleep(time.Minute)
				var got []string
				for _, line := range f.take() {
					got = append(got, strings.TrimPrefix(line[:strings.LastIndex(line, "@")], "robots.example.com "))
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("%s: delivered %q, want %q", tt.why, got, tt.want)
				}
				f.srv.Put(robots, "one", "a", "spec.n=1")
				time.Sleep(time.Second)
				if got := f.take(); len(got) != 1 {
					t.Errorf("%s: delivered %q of the other namespace, want one event", tt.why, got)
				}
				f.stop()
			})
		})
	}
}

// The answer of a check that is active when the namespace is deleted does not count.
func TestNamespaceDeletedDuringItsCheckIsNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"}
		f := inNamespaces(t, nil, names...)
		f.apply("selfsubjectrulesreviews write *: slow 2s\n")
		f.start(t.Context())
		f.within(15*time.Second, "all are watched", f.watchedIn(names...))
		time.Sleep(61 * time.Second)
		for _, n := range names[1:] { // one of which is checked at this moment
			_, _ = f.srv.Delete(robots, n, "a")
			_, _ = f.srv.Delete(spaces, "", n)
		}
		time.Sleep(time.Minute)
		if is := f.status("robots.example.com"); !slices.Equal(is.Namespaces, names[:1]) {
			t.Errorf("watched in %q", is.Namespaces)
		}
		f.stop()
	})
}

// The namespace is watched until the loop has received DELETED of its objects.
func TestBusyLoopKeepsDeletedNamespaceWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := inNamespaces(t, &follow.Options{Mux: mux.Options{BufferEvents: 1}}, "one", "two")
		slow := time.Now().Add(30 * time.Second)
		f.handle = func(stream.Event) {
			if time.Now().After(slow) {
				time.Sleep(30 * time.Second)
			}
		}
		f.start(t.Context())
		time.Sleep(31 * time.Second)
		for i := range 6 {
			f.srv.Put(robots, "two", "a", fmt.Sprint("spec.n=", i))
		}
		_, _ = f.srv.Delete(robots, "two", "a")
		_, _ = f.srv.Delete(spaces, "", "two")
		time.Sleep(time.Minute)
		if !f.watchedIn("one", "two")() {
			t.Error("the namespace is no longer watched before DELETED is delivered")
		}
		f.within(10*time.Minute, "DELETED has been delivered", f.watchedIn("one"))
		time.Sleep(3 * time.Minute) // the loop receives what the Mux holds
		if got := f.take(); !strings.Contains(got[len(got)-1], "DELETED two/a") {
			t.Errorf("delivered %q, without DELETED", got)
		}
		f.stop()
	})
}

// While the namespaces can be listed, all of them are checked.
func TestCandidatesReplaceUnlistableNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, spaces)
		for _, n := range []string{"one", "two", "three"} {
			srv.Put(spaces, "", n)
			srv.Put(robots, n, "a")
		}
		selection := follow.Selection{Resources: []string{"robots"}, CandidateNamespaces: []string{"one", "three"}}
		f := newFollower(t, srv, selection,
			nil)
		f.do("namespaces forbid all", "robots forbid all", "robots allow all in one", "robots allow all in two")
		f.start(t.Context())
		f.within(15*time.Second, "one candidate is allowed", f.watchedIn("one"))
		time.Sleep(4 * time.Minute)
		f.do("namespaces allow")
		f.within(15*time.Second, "all existing namespaces are checked", f.watchedIn("one", "two"))
		f.do("namespaces forbid all", "namespaces close watches")
		time.Sleep(10 * time.Minute)
		f.do("robots allow all in three")
		f.within(15*time.Second, "candidates are checked again",
			func() bool { return slices.Contains(f.status("robots.example.com").Namespaces, "three") })
		f.stop()
	})
}

// Once all of Selection.Namespaces may be watched, the state is Watching.
func TestSelectedNamespacesAreWatchedIfAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, spaces).WithReviews()
		for _, n := range []string{"one", "two", "three"} {
			srv.Put(robots, n, "a")
		}
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots"}, Namespaces: []string{"two", "one"}},
			nil)
		f.do("robots forbid all in two")
		f.start(t.Context())
		f.within(15*time.Second, "only one may be watched", f.watchedIn("one"))
		time.Sleep(time.Second)
		if got := f.state("robots.example.com"); got != "Forbidden" {
			t.Errorf("the state is %s, though two may not be watched", got)
		}
		f.do("robots allow all in two")
		f.within(15*time.Second, "both may be watched", f.watchedIn("one", "two"))
		time.Sleep(time.Second)
		if got := f.state("robots.example.com"); got != "Watching" {
			t.Errorf("the state is %s, though everything is watched", got)
		}
		want := []string{"robots.example.com ADDED one/a@2", "robots.example.com SYNCED",
			"robots.example.com ADDED two/a@3", "robots.example.com SYNCED"}
		f.after(time.Minute, "each object is delivered once", want...)
		before := len(srv.Requests())
		time.Sleep(time.Minute)
		for i, q := range srv.Requests() {
			isReview := strings.HasPrefix(q.Resource, "selfsubject")
			if i >= before && isReview || strings.HasPrefix(q.Resource, "namespaces") {
				t.Errorf("a needless request of %s at %v", q.Resource, q.At)
			}
		}
		f.stop()
	})
}

// Start: Now counts for resources served at the beginning, even if they may not be watched at once.
func TestNowCountsFromTheRunsBeginning(t *testing.T) {
	now := &follow.Options{Source: watchedWith(stream.Options{}, stream.Run{Start: stream.Now()})}
	for _, where := range []string{"across the cluster", "in a namespace"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := inNamespaces(t, now, "one", "two")
				want := "robots.example.com SYNCED @5"
				if f.do("robots forbid all in two"); where == "across the cluster" {
					f.do("robots forbid all in one", "namespaces forbid all") // in no namespace either
				} else {
					want += " in one"
				}
				f.start(t.Context())
				time.Sleep(time.Minute)
				if where == "across the cluster" {
					f.do("robots allow")
				}
				f.after(time.Minute, "objects that existed are not ADDED", want)
				f.srv.Put(robots, "one", "b")
				f.after(time.Second, "new objects are ADDED", "robots.example.com ADDED one/b@6")
				f.srv.Serve(rovers)
				f.srv.Put(rovers, "one", "a")
				f.after(10*time.Second, "all objects of a type served later are ADDED",
					"rovers.example.com ADDED one/a@7", "rovers.example.com SYNCED @7")
				f.stop()
				f.start(t.Context())
				time.Sleep(time.Minute)
				if got := strings.Join(f.take(), "\n"); strings.Contains(got, "ADDED") {
					t.Errorf("in the next run all types are served at the beginning, and it delivers\n%s", got)
				}
				f.stop()
			})
		})
	}
}

// An event is not delivered again if it is acked within five seconds.
func TestNamespaceChangeRepeatsUnackedEventsOnly(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		again bool
		why   string
	}{
		{2 * time.Second, false, "acks are waited for"},
		{time.Hour, true, "for five seconds"},
	} {
		synctest.Test(t, func(t *testing.T) {
			tracker := scenario.NewTracker(t, &checkpoint.Memory{})
			defer tracker.Close()
			f := inNamespaces(t, &follow.Options{
				Source: watchedWith(stream.Options{}, stream.Run{Checkpoint: tracker}),
			}, "one", "two")
			f.do("robots forbid all in two")
			f.handle = func(ev stream.Event) {
				if ev.Object != nil && ev.Object.GetName() == "late" {
					time.AfterFunc(tt.takes, ev.Ack)
					return
				}
				ev.Ack()
			}
			f.start(t.Context())
			f.within(15*time.Second, "the resource is watched where that is allowed", f.watchedIn("one"))
			time.Sleep(10 * time.Second)
			f.take()
			for i := range 60 { // until the next run has begun
				f.srv.Put(robots, "one", "late", fmt.Sprint("spec.n=", i))
				time.Sleep(250 * time.Millisecond)
				if i == 4 {
					f.do("robots allow")
				}
			}
			time.Sleep(time.Minute)
			f.stop()
			delivered := strings.Join(f.take(), "\n")
			if again := strings.Count(delivered, "ADDED one/late") > 1; again != tt.again {
				t.Errorf("%s: delivered again is %v", tt.why, again)
			}
			if !strings.Contains(delivered, "ADDED two/a@5") {
				t.Errorf("the cluster was not watched: %v", delivered)
			}
		})
	}
}

// Each namespace costs at most two lists and two watches.
func TestNamespacesAddedTogetherCostFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("n%03d", i))
		}
		f := inNamespaces(t, nil, names...)
		f.apply("selfsubjectrulesreviews write *: slow 20ms\nselfsubjectaccessreviews write *: slow 20ms\n")
		requests := func() (lists, watches int) {
			for _, q := range f.srv.Requests() {
				if q.Resource == "robots.v1.example.com" {
					switch q.Verb {
					case "list":
						lists++
					case "watch":
						watches++
					}
				}
			}
			return lists, watches
		}
		f.start(t.Context())
		f.within(15*time.Second, "all namespaces are watched", f.watchedIn(names...))
		time.Sleep(10 * time.Second)
		lists, watches := requests()
		if lists > 2*n || watches > 2*n {
			t.Errorf("%d lists and %d watches for %d namespaces, to begin with", lists, watches, n)
		}
		f.stop()
	})
}

// Each resource is checked in each namespace in turn, at rest five of them in a second.
func TestNewRightIsNoticedWithoutRulesReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const types, namespaces = 12, 60
		srv := streamtest.NewServer(spaces, apiserver.Reviews()[0]) // without rules
		for i := range namespaces {
			srv.Put(spaces, "", fmt.Sprint("n", i))
		}
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*.example.com"}}, nil)
		for i := range types {
			r := kindOf(fmt.Sprintf("things%02dxs", i), "example.com", "v1", true)
			srv.Serve(r)
			f.do(r.Resource + " forbid all")
		}
		f.apply("selfsubjectaccessreviews write *: slow 5ms\n")
		f.start(t.Context())
		time.Sleep(time.Minute)
		f.do("things00xs allow all in n7")
		f.within(types*(1+namespaces)*time.Second/5, "a new right is noticed",
			func() bool { return slices.Equal(f.status("things00xs.example.com").Namespaces, []string{"n7"}) })
		f.stop()
	})
}

// A watch that is refused although a review allows it is retried, at first soon, then every minute. The namespaces are
// not checked, so that the sequence goes on without a GAP.
func TestRefusedWatchIsRetriedIfReviewsAllowIt(t *testing.T) {
	for _, tt := range []struct {
		lasts, within time.Duration
		most          int // requests for the resource
		why           string
	}{
		{3 * time.Second, 5 * time.Second, 10, "the first retries come soon"},
		{time.Hour, 61 * time.Second, 200, "up to three requests every minute"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(robots, spaces).WithReviews()
			srv.Put(spaces, "", "one")
			srv.Put(robots, "one", "a")
			f := newFollower(t, srv, follow.Selection{Resources: []string{"robots"}}, nil)
			f.start(t.Context())
			time.Sleep(time.Minute)
			f.take()
			before := len(srv.Requests())
			f.apply("robots initial *: 403\nrobots watch *: 403\nrobots probe *: 403")
			f.do("robots close watches")
			srv.Put(robots, "one", "a", "spec.n=1")
			time.Sleep(tt.lasts)
			if is := f.status("robots.example.com"); is.State != follow.Forbidden || len(is.Namespaces) > 0 {
				t.Errorf("%s: the state is %s in %q, want Forbidden", tt.why, is.State, is.Namespaces)
			}
			n := 0
			for _, q := range srv.Requests()[before:] {
				if q.Resource == "robots.v1.example.com" {
					n++
				}
			}
			if n > tt.most {
				t.Errorf("%s: %d requests in %v", tt.why, n, tt.lasts)
			}
			f.do("heal")
			f.within(tt.within, tt.why, func() bool { return f.state("robots.example.com") == "Watching" })
			f.after(time.Minute, tt.why, "robots.example.com MODIFIED one/a@4")
			f.stop()
		})
	}
}

// Without reviews a list shows what is allowed, but watching may be allowed in fewer places.
func TestNamespacesAreWatchedIfOnlyListsAreAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, spaces)
		srv.Put(spaces, "", "one")
		srv.Put(spaces, "", "two")
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots"}}, nil)
		f.do("robots forbid watch", "robots allow watch in one")
		f.start(t.Context())
		f.within(5*time.Second, "one may be watched", f.watchedIn("one"))
		time.Sleep(10 * time.Minute)
		f.do("robots allow")
		f.within(61*time.Second, "the cluster may be watched",
			func() bool { return f.state("robots.example.com") == "Watching" })
		f.stop()
	})
}

// An API that does not answer does not keep the rights to others from being noticed.
func TestHangingChecksDoNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, rovers, spaces) // without reviews, so that each API is asked
		for i := range 20 {
			srv.Put(spaces, "", fmt.Sprint("n", i))
		}
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots", "rovers"}}, nil)
		f.do("robots forbid all", "rovers forbid all")
		f.apply("rovers probe *: hang")
		f.start(t.Context())
		time.Sleep(10 * time.Minute)
		f.do("robots allow all in n7")
		f.within(2*time.Minute, "each namespace takes four seconds", f.watchedIn("n7"))
		f.do("robots forbid all", "robots allow all in n8", "robots close watches")
		f.within(30*time.Second, "after a refusal, eight are asked at once", f.watchedIn("n8"))
		f.stop()
	})
}
