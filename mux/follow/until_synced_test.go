package follow_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// The run ends when every resource is SYNCED or has nothing left to wait for, and not before.
func TestUntilSyncedEndsOnceNothingIsPending(t *testing.T) {
	dropped := follow.Options{
		Mux: mux.Options{OnError: func(string, error) mux.Decision { return mux.Drop }},
		Source: func(r gvr.Resource) (o stream.Options, run stream.Run) {
			if r.Resource == "robots" {
				o.Namespaces = []string{"x"} // which is invalid
			}
			return o, run
		},
	}
	planetsAlone := []string{"planets.space.io SYNCED @3"}
	inOne := []string{"robots.example.com ADDED one/a@3", "robots.example.com SYNCED @3 in one"}
	tests := []struct {
		name    string
		reviews bool
		names   []string
		sel     follow.Selection // without Resources
		options follow.Options
		script  string
		do      []string
		during  func(*follower)
		want    []string
		why     string
	}{
		{"failing last", false, []string{"robots"}, follow.Selection{}, follow.Options{},
			"robots list *: 405\nrobots initial *: 405", nil, nil,
			nil, "a resource that is refused is not waited for"},
		{"gone last", false, []string{"robots", "planets"}, follow.Selection{}, follow.Options{},
			"robots list *: 503\nrobots initial *: 503", nil,
			func(f *follower) { time.Sleep(20 * time.Second); f.srv.Unserve(robots) }, planetsAlone,
			"a resource that is no longer served is not waited for"},
		{"not served", false, []string{"robots", "planets", "unserved.example.com"}, follow.Selection{},
			follow.Options{}, "", nil, nil,
			[]string{"planets.space.io SYNCED @3", "robots.example.com ADDED one/a@3",
				"robots.example.com SYNCED @3"}, "a name that is not served is not waited for"},
		{"dropped", false, []string{"robots", "planets"}, follow.Selection{}, dropped, "", nil, nil, planetsAlone,
			"a dropped resource is not waited for"},
		{"removed", false, []string{"robots", "planets"}, follow.Selection{}, follow.Options{},
			"robots list *: 503\nrobots initial *: 503", nil,
			func(f *follower) { time.Sleep(20 * time.Second); f.m.Remove("robots.example.com") }, planetsAlone,
			"a removed resource is not waited for"},
		{"namespaces come late", true, []string{"robots"}, follow.Selection{}, follow.Options{},
			"namespaces initial 1: slow 500ms\nnamespaces list 1: slow 500ms",
			[]string{"robots forbid all",
				"robots allow all in one"}, nil, inOne, "the list of namespaces is waited for"},
		{"reviews fail", true, []string{"robots"}, follow.Selection{CandidateNamespaces: []string{"one"}},
			follow.Options{},
			"selfsubjectaccessreviews write 1-8: 500\nselfsubjectrulesreviews write 1-8: 500",
			[]string{"robots forbid all", "robots allow all in one"}, nil, inOne, "a review that failed is repeated"},
		{"reviews never work", true, []string{"robots", "planets"}, follow.Selection{}, follow.Options{},
			"selfsubjectaccessreviews write *: 500\nselfsubjectrulesreviews write *: 500",
			[]string{"robots forbid all"}, nil, planetsAlone, "rights that can't be checked are not waited for long"},
		{"refused for a moment", true, []string{"robots"}, follow.Selection{}, follow.Options{},
			"robots initial 1-3: 403\nrobots list 1-3: 403", nil, nil,
			[]string{"robots.example.com ADDED one/a@3", "robots.example.com SYNCED @3"},
			"a watch that is refused although a review allows it is tried again"},
		{"refused although allowed", true, []string{"robots", "planets"}, follow.Selection{}, follow.Options{},
			"robots initial *: 403\nrobots list *: 403", nil, nil, planetsAlone, "but not waited for long"},
		{"allowed nowhere", true, []string{"robots", "planets"}, follow.Selection{}, follow.Options{}, "",
			[]string{"robots forbid all"}, nil, planetsAlone,
			"a resource that may be watched nowhere is not waited for"},
		{"an API is down", false, []string{"*.example.com", "planets"}, follow.Selection{}, follow.Options{}, "",
			[]string{"discovery down example.com"}, nil,
			planetsAlone, "an API that does not answer is not waited for"},
		{"slow StatusChanged", false, []string{"robots", "planets"}, follow.Selection{},
			follow.Options{StatusChanged: func(s follow.ResourceStatus) {
				if s.State == follow.Watching && s.Resource.Resource == "robots" {
					time.Sleep(time.Second)
				}
			}}, "planets initial 1: slow 300ms", nil, nil,
			[]string{"planets.space.io SYNCED @3", "robots.example.com ADDED one/a@3",
				"robots.example.com SYNCED @3"}, "the run does not end before every SYNCED is delivered"},
		{"a namespace goes", true, []string{"robots"}, follow.Selection{}, follow.Options{},
			"robots initial 1 in one: hang", []string{"robots forbid all", "robots allow all in one"},
			func(f *follower) {
				f.srv.Put(spaces, "", "two")
				f.do("robots allow all in two")
				time.Sleep(15 * time.Second)
				_, _ = f.srv.Delete(spaces, "", "two")
				time.Sleep(15 * time.Second)
			}, []string{"robots.example.com ADDED one/a@3", "robots.example.com SYNCED"},
			"the namespaces that remain are waited for"},
		{"a namespace comes", true, []string{"robots", "planets"}, follow.Selection{}, follow.Options{},
			"planets initial 1: hang\nrobots initial 1-2 in two: hang",
			[]string{"robots forbid all", "robots allow all in one"},
			func(f *follower) {
				time.Sleep(10 * time.Second)
				f.srv.Put(spaces, "", "two")
				f.srv.Put(robots, "two", "b")
				f.do("robots allow all in two")
			}, []string{"planets.space.io SYNCED @5", "robots.example.com ADDED one/a@3",
				"robots.example.com ADDED two/b@5", "robots.example.com SYNCED",
				"robots.example.com SYNCED @3 in one"}, "a namespace that was added is waited for"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				served := []gvr.Resource{robots, planets, spaces}
				if tt.reviews {
					served = append(served, apiserver.Reviews()...)
				}
				srv := streamtest.NewServer(served...)
				srv.Put(spaces, "", "one")
				srv.Put(robots, "one", "a", "spec.n=1")
				tt.sel.Resources, tt.options.UntilSynced = tt.names, true
				f := newFollower(t, srv, tt.sel, &tt.options)
				f.apply(tt.script)
				f.do(tt.do...)
				for _, again := range []string{"", "; in the next run"} {
					if tt.during != nil && again != "" {
						break // the server, or the Mux, has changed
					}
					began := time.Now()
					f.start(t.Context())
					if tt.during != nil {
						tt.during(f)
					}
					if err := f.end(tt.why + again); err != nil {
						t.Errorf("%s: the run ended with %v", tt.why+again, err)
					}
					if took := time.Since(began); tt.during == nil && took > 80*time.Second {
						t.Errorf("%s: the run took %v, want about a minute at most", tt.why+again, took)
					}
					got := f.take()
					slices.Sort(got)
					if diff := cmp.Diff(tt.want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", tt.why+again, diff)
					}
				}
			})
		})
	}
}

// While nothing is known of what is served, a run until synced goes on, with a status that says why, until ctx ends:
// without an error, it would look like the run of an empty server.
func TestUntilSyncedWaitsForDiscovery(t *testing.T) {
	tests := []struct{ script, why string }{
		{"any *: 503", "the server is overloaded"},
		{"any *: refuse", "nothing listens"},
		{"any *: hang", "the server does not answer"},
		{"discovery *: 503", "discovery alone fails"},
		{"discovery *: hang", "discovery alone does not answer"},
	}
	for _, tt := range tests {
		for _, sel := range []follow.Selection{{Resources: []string{"*"}}, allCustom} {
			synctest.Test(t, func(t *testing.T) {
				f := newFollower(t, newCRDServer([]gvr.Resource{robots}), sel, &follow.Options{UntilSynced: true})
				f.apply(tt.script)
				enough := errors.New("enough")
				ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute, enough)
				defer cancel()
				f.start(ctx)
				check := func(when string) {
					t.Helper()
					if bad := (*discovery.UnavailableError)(nil); !errors.As(f.m.Status().Discovery, &bad) {
						t.Errorf("%s, %s: Status.Discovery is %v", tt.why, when, f.m.Status().Discovery)
					}
				}
				time.Sleep(time.Minute)
				check("during the run")
				if err := <-f.ended; err != enough || time.Since(f.began) != 5*time.Minute || len(f.take()) > 0 {
					t.Errorf("%s: the run has ended with %v after %v", tt.why, err, time.Since(f.began))
				}
				check("after the run")
				f.do("heal")
				f.start(t.Context())
				if err := f.end(tt.why); err != nil || len(f.take()) == 0 || f.m.Status().Discovery != nil {
					t.Errorf("%s: then the run ended with %v, and Status is %+v", tt.why, err, f.m.Status())
				}
			})
		}
	}
}

// A resource whose server fails is waited for, unless Source bounds that.
func TestUntilSyncedWaitsForAFailingServer(t *testing.T) {
	for _, giveUpAfter := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			f := newFollower(t, streamtest.NewServer(robots), follow.Selection{Resources: []string{"*"}},
				&follow.Options{UntilSynced: true, Source: watchedWith(
					stream.Options{Requests: stream.Requests{GiveUpAfter: giveUpAfter}}, stream.Run{})})
			f.apply("robots initial *: 503\nrobots list *: 503")
			f.start(t.Context())
			time.Sleep(5 * time.Minute)
			if ended := len(f.ended) > 0; ended != (giveUpAfter > 0) {
				t.Errorf("with GiveUpAfter %v the run has ended: %t", giveUpAfter, ended)
			}
			f.do("heal")
			if err := f.end("healed"); apierrors.IsServiceUnavailable(err) != (giveUpAfter > 0) {
				t.Errorf("with GiveUpAfter %v the run ended with %v", giveUpAfter, err)
			}
		})
	}
}
