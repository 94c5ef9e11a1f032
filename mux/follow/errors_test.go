package follow_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// Final errors are invalid options, and the errors that the stream.Options and the stream.Run ask for.
func TestFinalErrorsGoToOnError(t *testing.T) {
	var gap *stream.GapError
	var gaveUp *stream.GaveUpError
	var options *stream.OptionsError
	tests := []struct {
		name    string
		options stream.Options
		run     stream.Run
		do      func(*follower)
		is      func(error) bool
		why     string
	}{
		{"gives up", stream.Options{Requests: stream.Requests{GiveUpAfter: 10 * time.Second}}, stream.Run{},
			func(f *follower) {
				f.apply("robots list *: 503\nrobots probe *: 503\nrobots watch *: 503\nrobots initial *: 503")
				f.do("robots close watches")
			}, func(err error) bool { return errors.As(err, &gaveUp) }, "GiveUpAfter applies"},
		{"expired", stream.Options{}, stream.Run{FailOnGap: true}, func(f *follower) {
			f.do("410 as status")
			f.expire()
		}, func(err error) bool { return errors.As(err, &gap) }, "FailOnGap applies"},
		{"in namespaces", stream.Options{Namespaces: []string{"one"}}, stream.Run{}, nil,
			func(err error) bool { return errors.As(err, &options) }, "Selection.Namespaces replaces it"},
		{"UntilSynced", stream.Options{}, stream.Run{Until: stream.UntilSynced}, nil,
			func(err error) bool { return errors.As(err, &options) && options.Field == "Source.Until" },
			"a followed resource has no end, and the error names the option"},
		{"Start: After a version", stream.Options{}, stream.Run{Start: stream.After("1")}, nil,
			func(err error) bool { return errors.As(err, &options) }, "a version belongs to one resource"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(robots, planets).AllFaults(friend.Access{})
				srv.Put(robots, "one", "a")
				f := newFollower(t, srv, follow.Selection{Resources: []string{"robots"}},
					&follow.Options{Source: watchedWith(tt.options, tt.run)})
				f.start(t.Context())
				if tt.do != nil {
					time.Sleep(time.Minute)
					tt.do(f)
				}
				var failed *mux.SourceError
				if err := f.end(tt.why); !errors.As(err, &failed) || failed.Key != "robots.example.com" || !tt.is(err) {
					t.Errorf("%s: the run ended with %v", tt.why, err)
				}
			})
		})
	}
}

func TestNowUntilSyncedTakesNoCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracker := scenario.NewTracker(t, &checkpoint.Memory{})
		f := newFollower(t, streamtest.NewServer(robots), follow.Selection{Resources: []string{"robots"}},
			&follow.Options{UntilSynced: true,
				Source: watchedWith(stream.Options{}, stream.Run{Start: stream.Now(), Checkpoint: tracker})})
		f.start(t.Context())
		var bad *stream.OptionsError
		err := f.end("the options are invalid")
		if !errors.As(err, &bad) || bad.Field != "UntilSynced and Source.Start" {
			t.Errorf("the run ended with %v", err)
		}
		_ = tracker.Close()
	})
}

func TestPanicInStatusChangedEndsTheRun(t *testing.T) {
	tests := []struct {
		state follow.State // in which it panics
		do    func(*follower)
		key   string
		why   string
	}{
		{follow.Unserved, nil, "rovers", "the goroutine that follows discovery calls it"},
		{follow.Watching, nil, "robots.example.com", "the goroutine of a source calls it"},
		{follow.Forbidden, func(f *follower) { f.do("robots forbid all", "robots close watches") },
			"robots.example.com", "the goroutine beside a Stream calls it"},
		{follow.Gone, func(f *follower) { f.do("robots delete crd") }, "robots.example.com", "a type is removed"},
	}
	for _, tt := range tests {
		t.Run(string(tt.state), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFollower(t, streamtest.NewServer(robots),
					follow.Selection{Resources: []string{"*", "rovers"}},
					&follow.Options{StatusChanged: func(s follow.ResourceStatus) {
						if s.State == tt.state {
							panic("a mistake")
						}
					}})
				f.start(t.Context())
				time.Sleep(time.Minute)
				if tt.do != nil {
					tt.do(f)
				}
				var panicked *stream.PanicError
				err := f.end(tt.why)
				if !errors.As(err, &panicked) || panicked.Where != tt.key || len(panicked.Stack) == 0 {
					t.Errorf("%s: the run ended with %v", tt.why, err)
				}
			})
		})
	}
}

func TestPanicInTheOptionsOfAResourceIsItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(t, streamtest.NewServer(robots), follow.Selection{Resources: []string{"*"}},
			&follow.Options{Source: func(gvr.Resource) (stream.Options, stream.Run) { panic("a mistake") }})
		f.start(t.Context())
		var failed *mux.SourceError
		var panicked *stream.PanicError
		if err := f.end("Options.Source panics"); !errors.As(err, &failed) || !errors.As(err, &panicked) {
			t.Errorf("the run ended with %v", err)
		}
	})
}

func TestPanicInTraceIsTheSourcesError(t *testing.T) {
	for _, state := range []stream.State{stream.Listing, stream.Streaming, stream.Forbidden} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(robots, planets)
			var failures []error
			f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}}, &follow.Options{
				Mux: mux.Options{OnError: func(_ string, err error) mux.Decision {
					failures = append(failures, err)
					return mux.Drop
				}},
				Source: func(r gvr.Resource) (o stream.Options, run stream.Run) {
					if r.Resource != "robots" {
						return o, run
					}
					o.Trace = &stream.Trace{StatusChanged: func(s stream.Status) {
						if s.State == state {
							panic("a mistake")
						}
					}}
					return o, run
				},
			})
			f.start(t.Context())
			time.Sleep(time.Minute)
			f.do("robots forbid all", "robots close watches")
			time.Sleep(time.Minute)
			f.stop()
			var panicked *stream.PanicError
			if len(failures) != 1 || !errors.As(failures[0], &panicked) {
				t.Errorf("in %s: failures %v, want one PanicError", state, failures)
			}
			if got := f.take(); !slices.Contains(got, "planets.space.io SYNCED @1") {
				t.Errorf("delivered %q, want SYNCED of the other source", got)
			}
		})
	}
}

// ownSource is a source with the key of a resource.
type ownSource struct{}

func (ownSource) Key() string { return "robots.example.com" }

func (ownSource) Events(ctx context.Context) iter.Seq2[stream.Event, error] {
	return func(yield func(stream.Event, error) bool) {
		if yield(stream.Event{Type: stream.Bookmark, ResourceVersion: "1"}, nil) {
			<-ctx.Done()
			yield(stream.Event{}, context.Cause(ctx))
		}
	}
}

func TestSourceOfTheCallerKeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(planets)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}}, nil)
		if err := f.m.Add(ownSource{}, nil); err != nil {
			t.Fatal(err)
		}
		f.start(t.Context())
		time.Sleep(time.Minute)
		if got := f.take(); !slices.Contains(got, "robots.example.com BOOKMARK @1") {
			t.Errorf("delivered %q, without the event of the caller's source", got)
		}
		srv.Serve(robots)
		srv.Put(robots, "one", "a")
		f.after(10*time.Minute, "the resource is not attached")
		var taken *stream.OptionsError
		if is := f.status("robots.example.com"); is.State != follow.Dropped || !errors.As(is.Cause, &taken) ||
			taken.Field != "Key" {
			t.Errorf("the state is %s: %v", is.State, is.Cause)
		}
		if err := f.stop(); err != nil {
			t.Errorf("the run ended with %v", err)
		}
	})
}

// Status.Discovery says so for patterns, too.
func TestStatusReportsFailingDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}}, nil)
		f.do("unauthorized")
		f.start(t.Context())
		time.Sleep(time.Minute)
		if f.m.Status().Discovery == nil {
			t.Error("Status.Discovery is nil, though every request is refused")
		}
		f.do("authorized")
		f.after(time.Minute, "discovery is repeated", "robots.example.com SYNCED @1")
		f.do("discovery down example.com")
		time.Sleep(time.Minute)
		want := []schema.GroupVersion{{Group: "example.com"}}
		var down *discovery.UnavailableError
		if err := f.m.Status().Discovery; !errors.As(err, &down) || !slices.Equal(down.GroupVersions, want) {
			t.Errorf("Status.Discovery is %v, want the API that does not answer", err)
		}
		f.do("discovery up example.com")
		time.Sleep(time.Minute)
		if err := f.m.Status().Discovery; err != nil {
			t.Errorf("Status.Discovery is still %v", err)
		}
		// A watch that is refused later is a state of the source, not of the resource.
		f.do("unauthorized", "robots close watches")
		time.Sleep(time.Minute)
		st := f.m.Status()
		if st.Resources[0].State != follow.Watching || st.Sources[0].State != stream.Unauthorized {
			t.Errorf("the state is %s, and that of the source %s", st.Resources[0].State, st.Sources[0].State)
		}
		f.do("authorized", "discovery down example.com")
		time.Sleep(time.Minute)
		f.stop()
		f.do("discovery up example.com")
		f.start(t.Context())
		time.Sleep(time.Minute)
		if err := f.m.Status().Discovery; err != nil {
			t.Errorf("in the next run Status.Discovery is %v", err)
		}
		f.stop()
	})
}

// TestRetriesAreSpread: resources that failed together are not retried together, nor too often.
func TestRetriesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, rovers)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}}, nil)
		f.apply("robots initial *: 405\nrovers initial *: 405\nrobots list *: 405\nrovers list *: 405")
		f.start(t.Context())
		time.Sleep(time.Hour)
		f.stop()
		at := map[string][]time.Duration{}
		for _, q := range srv.Requests() {
			if q.Verb != "discovery" {
				at[q.Resource] = append(at[q.Resource], q.At.Sub(f.began).Round(time.Second))
			}
		}
		a, b := at["robots.v1.example.com"], at["rovers.v1.example.com"]
		if slices.Equal(a, b) || len(a) < 30 || len(a) > 200 {
			t.Errorf("in an hour the requests are at %v and %v", a, b)
		}
	})
}

// Discovery still lists the resource.
func TestGoneResourceCostsFewDiscoveryRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, planets,
			kindOf("customresourcedefinitions", "apiextensions.k8s.io", "v1", false))
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*.example.com"}}, nil)
		f.apply("robots initial *: 404\nrobots list *: 404")
		f.start(t.Context())
		time.Sleep(10 * time.Minute)
		if n := f.discoveries(10 * time.Minute); n > 100 {
			t.Errorf("%d discoveries in ten minutes", n)
		}
		if got := f.state("robots.example.com"); got != "Gone" {
			t.Errorf("the state is %s", got)
		}
		f.do("heal")
		time.Sleep(time.Minute)
		f.apply("robots initial *: 404\nrobots list *: 404\nrobots probe *: 404\nrobots watch *: 404")
		f.do("robots close watches")
		f.within(5*time.Second, "the resource is gone again",
			func() bool { return f.state("robots.example.com") == "Gone" })
		f.do("heal")
		f.within(2*time.Second, "earlier failures do not count",
			func() bool { return f.state("robots.example.com") == "Watching" })
		f.stop()
	})
}

func TestRetryAfterFailOnGapStartsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots)
		srv.Put(robots, "one", "a")
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots"}}, &follow.Options{
			Mux:    mux.Options{OnError: func(string, error) mux.Decision { return mux.Retry }},
			Source: watchedWith(stream.Options{}, stream.Run{FailOnGap: true}),
		})
		f.start(t.Context())
		f.after(time.Minute, "the first time", "robots.example.com ADDED one/a@2", "robots.example.com SYNCED @2")
		f.expire()
		f.after(5*time.Minute, "again", "robots.example.com ADDED one/a@4", "robots.example.com SYNCED @4")
		f.stop()
	})
}

// expire changes robots twice while the watch is silent, and makes the first change expire.
func (f *follower) expire() {
	f.Helper()
	f.do("robots silence")
	f.srv.Put(robots, "one", "a", "spec.n=1")
	f.srv.Put(robots, "one", "a", "spec.n=2")
	f.do("compact")
}

// discoveries counts the discoveries in some time. Each is at least two requests.
func (f *follower) discoveries(d time.Duration) (n int) {
	before := len(f.srv.Requests())
	time.Sleep(d)
	for _, q := range f.srv.Requests()[before:] {
		if q.Verb == "discovery" {
			n++
		}
	}
	return n / 2
}

// While CustomResourceDefinitions can't be watched, discovery polls often.
func TestPollsAreRareWhileTypesAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(planets, kindOf("customresourcedefinitions", "apiextensions.k8s.io", "v1", false))
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*.example.com"}}, nil)
		f.start(t.Context())
		time.Sleep(time.Minute)
		if n := f.discoveries(5 * time.Minute); n > 50 {
			t.Errorf("%d discoveries in five minutes with a watch", n)
		}
		f.do("customresourcedefinitions forbid all", "customresourcedefinitions close watches")
		time.Sleep(time.Minute)
		if n := f.discoveries(5 * time.Minute); n < 200 {
			t.Errorf("%d discoveries in five minutes without a watch, want more than 200", n)
		}
		f.do("customresourcedefinitions allow")
		time.Sleep(3 * time.Minute)
		if n := f.discoveries(5 * time.Minute); n > 50 {
			t.Errorf("%d discoveries in five minutes with a watch again", n)
		}
		f.stop()
	})
}

// However slow the loop is, DELETED of all objects of a removed type is delivered.
func TestSlowLoopReceivesDeletedOfRemovedType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots)
		var want []string
		for i := range 6 {
			name := string(rune('a' + i))
			srv.Put(robots, "one", name)
			want = append(want, "robots.example.com DELETED one/"+name)
		}
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}},
			&follow.Options{Mux: mux.Options{BufferEvents: 1}})
		slow := time.Now().Add(30 * time.Second)
		f.handle = func(stream.Event) {
			if time.Now().After(slow) {
				time.Sleep(10 * time.Second)
			}
		}
		f.start(t.Context())
		time.Sleep(31 * time.Second)
		f.take()
		f.do("robots delete crd")
		time.Sleep(5 * time.Minute)
		var got []string
		for _, line := range f.take() {
			got = append(got, line[:strings.LastIndex(line, "@")])
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("delivered %q, want %q", got, want)
		}
		if got := f.state("robots.example.com"); got != "Gone" {
			t.Errorf("the state is %s", got)
		}
		f.stop()
	})
}
