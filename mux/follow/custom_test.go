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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var (
	crds        = kindOf("customresourcedefinitions", "apiextensions.k8s.io", "v1", false)
	deployments = kindOf("deployments", "apps", "v1", true)
	gauges      = kindOf("gauges", "example.com", "v1", true) // of an aggregated API
	allCustom   = follow.Selection{Resources: []string{"*"}, Custom: true}
)

// newCRDServer returns a server with resources that definitions define, and others.
func newCRDServer(custom []gvr.Resource, others ...gvr.Resource) *streamtest.Server {
	srv := streamtest.NewServer(append(others, custom...)...)
	srv.Serve(crds)
	for _, r := range custom {
		srv.Put(crds, "", r.GroupResource().String())
	}
	return srv
}

// watched returns the resources that are Watching.
func (f *follower) watched() (keys []string) {
	for _, one := range f.m.Status().Resources {
		if one.State == follow.Watching {
			keys = append(keys, one.Resource.GroupResource().String())
		}
	}
	return keys
}

func TestCustomSelectsWhatIsDefined(t *testing.T) {
	inCategory := rovers
	inCategory.Categories = []string{"all"}
	tests := []struct {
		sel  follow.Selection
		want []string
		why  string
	}{
		{allCustom, []string{"planets.space.io", "robots.example.com", "rovers.example.com"},
			"neither built-in resources nor those of aggregated APIs"},
		{follow.Selection{Resources: []string{"*.example.com"}, Custom: true},
			[]string{"robots.example.com", "rovers.example.com"}, "those of a group"},
		{follow.Selection{Categories: []string{"all"}, Custom: true}, []string{"rovers.example.com"},
			"those of a category"},
		{follow.Selection{Resources: []string{"*"}, Exclude: []string{"robots"}, Custom: true},
			[]string{"planets.space.io", "rovers.example.com"}, "but not what is excluded"},
		{follow.Selection{Resources: []string{"*"}, Namespaces: []string{"one"}, Custom: true},
			[]string{"robots.example.com", "rovers.example.com"}, "in a namespace"},
		{follow.Selection{Resources: []string{"deploy*", "gauges", "crd", "planets"}, Custom: true},
			[]string{"customresourcedefinitions.apiextensions.k8s.io", "gauges.example.com", "planets.space.io"},
			"names are followed in any case, patterns of built-in resources are not"},
		{follow.Selection{Resources: []string{"*.example.com"}},
			[]string{"gauges.example.com", "robots.example.com", "rovers.example.com"}, "without Custom"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			short := crds
			short.ShortNames = []string{"crd"}
			srv := newCRDServer([]gvr.Resource{robots, inCategory, planets}, deployments, gauges)
			srv.Serve(short)
			f := newFollower(t, srv, tt.sel, &follow.Options{UntilSynced: true})
			f.start(t.Context())
			if err := f.end(tt.why); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want, f.watched()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(t, newCRDServer(nil, gauges), allCustom, &follow.Options{UntilSynced: true})
		f.start(t.Context())
		if err := f.end("no definition exists"); err != nil || len(f.take()) > 0 {
			t.Errorf("without definitions the run ends with %v, and delivers %q", err, f.lines)
		}
	})
}

// Definitions and types come and go in any order.
func TestCustomFollowsDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newCRDServer([]gvr.Resource{robots}, gauges)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"*.example.com"}, Custom: true}, nil)
		f.start(t.Context())
		f.after(3*time.Second, "what is defined", "robots.example.com SYNCED @2")
		srv.Put(crds, "", "rovers.example.com")
		f.after(5*time.Second, "a definition without a type")
		srv.Serve(rovers)
		f.after(3*time.Second, "its type is served", "rovers.example.com SYNCED @3")
		srv.Put(crds, "", "gauges.example.com")
		f.after(3*time.Second, "a type that was served before its definition", "gauges.example.com SYNCED @4")
		srv.Put(gauges, "one", "a")
		f.after(time.Second, "it is watched", "gauges.example.com ADDED one/a@5")
		_, _ = srv.Delete(crds, "", "gauges.example.com")
		f.after(10*time.Second, "another API serves the type, without a definition")
		const gone = "no CustomResourceDefinition defines the resource any more"
		if st := f.status("gauges.example.com"); st.State != follow.Gone || fmt.Sprint(st.Cause) != gone {
			t.Errorf("the state is %s: %v, want Gone: %s", st.State, st.Cause, gone)
		}
		srv.Put(gauges, "one", "b")
		f.after(10*time.Second, "it is no longer watched")
		srv.Put(crds, "", "gauges.example.com")
		f.after(3*time.Second, "and now it is again", "gauges.example.com ADDED one/b@7")
		f.do("robots delete crd")
		_, _ = srv.Delete(crds, "", "robots.example.com")
		srv.Put(rovers, "one", "a")
		f.after(10*time.Second, "a definition and its type are deleted", "rovers.example.com ADDED one/a@11")
		if got := f.state("robots.example.com"); got != "Gone" {
			t.Errorf("the state is %s, want Gone", got)
		}
		time.Sleep(10 * time.Minute)
		f.take()
		srv.Put(crds, "", "robots.example.com")
		f.do("robots create crd")
		srv.Put(robots, "one", "a")
		time.Sleep(5 * time.Second)
		if got := f.take(); !slices.ContainsFunc(got, func(line string) bool {
			return strings.HasPrefix(line, "robots.example.com ADDED one/a@")
		}) {
			t.Errorf("the type and its definition are created again: got %q", got)
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}

// Without the right to watch the definitions, where they are not served, and while the server fails, nothing is custom,
// and a status says so, also after the run. A run until synced waits for none of that longer than about a minute.
func TestCustomWithoutDefinitionsHasAStatus(t *testing.T) {
	const key = "customresourcedefinitions.apiextensions.k8s.io"
	fails := func(how string) string {
		return "customresourcedefinitions initial *: " + how + "\ncustomresourcedefinitions list *: " + how
	}
	anyError := func(err error) bool { return err != nil }
	const soon, late = 5 * time.Second, 62 * time.Second
	tests := []struct {
		script string
		do     []string // at the beginning
		state  follow.State
		is     func(error) bool
		within time.Duration
		why    string
	}{
		{"", []string{"customresourcedefinitions forbid all"}, follow.Forbidden, apierrors.IsForbidden, soon,
			"the right is missing"},
		{"", []string{"customresourcedefinitions forbid watch"}, follow.Forbidden, apierrors.IsForbidden, soon,
			"the right to watch is missing"},
		{"", []string{"customresourcedefinitions delete crd"}, follow.Gone, apierrors.IsNotFound, soon,
			"the server has no definitions"},
		{fails("500"), nil, follow.Failing, apierrors.IsInternalError, late, "the server fails: the Stream goes on"},
		{fails("503"), nil, follow.Failing, apierrors.IsServiceUnavailable, late, "the server is overloaded"},
		{fails("401"), nil, follow.Failing, apierrors.IsUnauthorized, late, "the token is bad"},
		{fails("405"), nil, follow.Failing, apierrors.IsMethodNotSupported, late, "the server refuses"},
		{fails("refuse"), nil, follow.Failing, anyError, late, "nothing listens"},
		{fails("hang"), nil, follow.Failing, anyError, late, "the server does not answer"},
		{fails("slow 2m"), nil, follow.Failing, anyError, late, "the server answers too late"},
	}
	for _, tt := range tests {
		for _, untilSynced := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				srv := newCRDServer([]gvr.Resource{robots}, gauges)
				f := newFollower(t, srv, allCustom, &follow.Options{UntilSynced: untilSynced})
				f.apply(tt.script)
				f.do(tt.do...)
				f.start(t.Context())
				check := func(when string) {
					t.Helper()
					st := f.m.Status().Resources
					if len(st) != 1 || st[0].Resource.GroupResource().String() != key || st[0].State != tt.state ||
						!tt.is(st[0].Cause) {
						t.Errorf("%s, %s: the status is %+v, want %s", tt.why, when, st, tt.state)
					}
				}
				time.Sleep(tt.within)
				check("during the run")
				if ended := len(f.ended) > 0; ended != untilSynced || len(f.take()) > 0 {
					t.Errorf("%s: UntilSynced is %t, and the run has ended: %t", tt.why, untilSynced, ended)
				}
				if untilSynced {
					if err := <-f.ended; err != nil {
						t.Errorf("%s: the run ends with %v", tt.why, err)
					}
					time.Sleep(time.Hour)
					check("long after the run")
					f.start(t.Context()) // which begins as the first one did
					time.Sleep(tt.within)
					check("in the second run")
					if err := f.end(tt.why); err != nil {
						t.Error(err)
					}
				}
				f.do("heal", "customresourcedefinitions allow", "customresourcedefinitions create crd")
				srv.Put(crds, "", "robots.example.com")
				if untilSynced {
					f.start(t.Context())
				}
				time.Sleep(3 * time.Minute)
				if got := f.take(); len(got) != 1 || !strings.HasPrefix(got[0], "robots.example.com SYNCED") {
					t.Errorf("%s: afterwards %q was delivered, want SYNCED of robots", tt.why, got)
				}
				if untilSynced {
					if err := f.end(tt.why); err != nil {
						t.Error(err)
					}
				}
				if diff := cmp.Diff([]string{"robots.example.com"}, f.watched()); diff != "" ||
					len(f.m.Status().Resources) != 1 {
					t.Errorf("%s: afterwards the status is %+v (-want +got):\n%s", tt.why, f.m.Status().Resources, diff)
				}
				want := []string{string(tt.state), "Watching"}
				if untilSynced { // the third run begins with Starting, and is never wrong
					want = []string{string(tt.state), string(tt.state)}
				}
				var reports []string
				for _, line := range f.states {
					if state, ok := strings.CutPrefix(line, key+" "); ok {
						reports = append(reports, state)
					}
				}
				if diff := cmp.Diff(want, reports); diff != "" {
					t.Errorf("%s: StatusChanged (-want +got):\n%s", tt.why, diff)
				}
				if !untilSynced {
					if err := f.stop(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// While a server that had sent the definitions fails, a status says so after a minute, and nothing changes of what is
// known. What is defined meanwhile is followed later.
func TestCustomStatusWhileTheServerFails(t *testing.T) {
	for _, how := range []string{"401", "405", "500", "refuse", "hang"} {
		synctest.Test(t, func(t *testing.T) {
			srv := newCRDServer([]gvr.Resource{robots}, rovers)
			f := newFollower(t, srv, allCustom, nil)
			f.start(t.Context())
			const key = "customresourcedefinitions.apiextensions.k8s.io"
			reports := func() (states []string) {
				f.mu.Lock()
				defer f.mu.Unlock()
				for _, line := range f.states {
					if state, ok := strings.CutPrefix(line, key+" "); ok {
						states = append(states, state)
					}
				}
				return states
			}
			f.after(5*time.Second, how, "robots.example.com SYNCED @2")
			f.apply("customresourcedefinitions any *: " + how)
			f.do("customresourcedefinitions close watches")
			srv.Put(crds, "", "rovers.example.com")
			f.after(30*time.Second, how+" for half a minute")
			if got := reports(); len(got) > 0 {
				t.Errorf("%s for half a minute: reported %q", how, got)
			}
			f.after(3*time.Minute, how+" for minutes")
			if st := f.status(key); st.State != follow.Failing || st.Cause == nil {
				t.Errorf("%s for minutes: the state is %s: %v, want Failing and a cause", how, st.State, st.Cause)
			}
			f.do("heal")
			f.after(2*time.Minute, how+" is over", "rovers.example.com SYNCED @3")
			if diff := cmp.Diff([]string{"Failing", "Watching"}, reports()); diff != "" {
				t.Errorf("%s: StatusChanged (-want +got):\n%s", how, diff)
			}
			if err := f.stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A right that is taken away changes nothing of what is known.
func TestCustomKeepsTheDefinitionsItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newCRDServer([]gvr.Resource{robots}, gauges)
		f := newFollower(t, srv, allCustom, nil)
		for run := range 2 {
			f.start(t.Context())
			f.after(3*time.Second, fmt.Sprint("run ", run), "robots.example.com SYNCED @2")
			f.do("customresourcedefinitions forbid all", "customresourcedefinitions close watches")
			time.Sleep(time.Minute)
			if a, b := f.state("customresourcedefinitions.apiextensions.k8s.io"), f.state("robots.example.com"); a !=
				"Forbidden" || b != "Watching" {
				t.Errorf("run %d: the states of the definitions and of robots are %s and %s", run, a, b)
			}
			if err := f.stop(); err != nil {
				t.Error(err)
			}
		}
		if n := slices.Index(f.states, "robots.example.com Gone"); n >= 0 {
			t.Errorf("the second run has lost what the first one knew: %q", f.states)
		}
		f.do("customresourcedefinitions allow")
		_, _ = srv.Delete(crds, "", "robots.example.com")
		srv.Put(crds, "", "gauges.example.com")
		f.start(t.Context())
		time.Sleep(3 * time.Second)
		if diff := cmp.Diff([]string{"gauges.example.com"}, f.watched()); diff != "" {
			t.Errorf("the third run has the definitions of now (-want +got):\n%s", diff)
		}
		f.stop()
	})
}

// What was served when the run began is not new, even if the definitions are known later.
func TestCustomStartsNowWhereTheRunDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newCRDServer([]gvr.Resource{robots}, gauges)
		srv.Put(robots, "one", "a")
		srv.Put(gauges, "one", "c")
		f := newFollower(t, srv, allCustom, &follow.Options{
			Source: watchedWith(stream.Options{}, stream.Run{Start: stream.Now()})})
		f.apply("customresourcedefinitions initial *: slow 10s\nat 30s: heal")
		f.start(t.Context())
		f.after(40*time.Second, "it was served", "robots.example.com SYNCED @4")
		srv.Put(crds, "", "rovers.example.com")
		srv.Serve(rovers)
		srv.Put(rovers, "one", "b")
		f.after(3*time.Second, "it is new", "rovers.example.com ADDED one/b@6", "rovers.example.com SYNCED @6")
		changed := gauges
		changed.ShortNames = []string{"ga"}
		srv.Serve(changed)
		f.after(time.Minute, "it has no definition, and has changed")
		srv.Put(crds, "", "gauges.example.com")
		f.after(3*time.Second, "it was served, too", "gauges.example.com SYNCED @7")
		f.stop()
	})
}

// A resource that is gone waits for no definition: what is served under its name then may be another one.
func TestCustomForgetsWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newCRDServer([]gvr.Resource{robots}, gauges)
		f := newFollower(t, srv, allCustom, nil)
		f.start(t.Context())
		f.after(3*time.Second, "it has no definition", "robots.example.com SYNCED @2")
		f.do("gauges delete crd")
		f.after(time.Minute, "it is gone")
		srv.Put(crds, "", "gauges.example.com")
		f.after(10*time.Second, "it is defined, and not served")
		if st := f.m.Status().Resources; len(st) != 1 {
			t.Errorf("the status is %+v, want robots alone", st)
		}
		f.stop()
	})
}

// Whoever names the definitions too has one status of them: that of the resource that is followed.
func TestCustomHasOneStatusOfNamedDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newCRDServer([]gvr.Resource{robots})
		f := newFollower(t, srv, follow.Selection{
			Resources: []string{"*", "customresourcedefinitions.apiextensions.k8s.io"}, Custom: true,
		}, nil)
		f.do("customresourcedefinitions forbid watch")
		f.start(t.Context())
		time.Sleep(time.Minute)
		st := f.m.Status().Resources
		if len(st) != 1 || st[0].Resource.GroupResource() != crds.GroupResource() || st[0].State != follow.Forbidden ||
			st[0].Ref == (gvr.Ref{}) {
			t.Errorf("the status is %+v, want the definitions once, Forbidden, with their name", st)
		}
		f.stop()
	})
}

func TestCustomRefusesTheFake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dc, err := discovery.NewClient(streamtest.NewServer(robots).Config())
		if err != nil {
			t.Fatal(err)
		}
		client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{robots.GroupVersionResource: "RobotList"})
		_, err = follow.New(discovery.NewResolver(dc, 0), client, allCustom, nil)
		if bad := (&stream.OptionsError{}); !errors.As(err, &bad) || bad.Field != "Custom" {
			t.Errorf("the error is %v, want one of Custom", err)
		}
	})
}

// A definition that goes while the first snapshot of its resource is read: the SYNCED after it changes no state.
func TestDefinitionThatGoesDuringASnapshotLeavesGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newCRDServer([]gvr.Resource{robots})
		f := newFollower(t, srv, allCustom, nil)
		f.apply("robots initial 1: slow 500ms")
		f.start(t.Context())
		time.Sleep(400 * time.Millisecond)
		if _, err := srv.Delete(crds, "", "robots.example.com"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := f.state("robots.example.com"); got != "Gone" {
			t.Errorf("the state is %s, want Gone: %q", got, f.reported())
		}
		f.stop()
	})
}

// Definitions that are handled while the run ends leave nothing that the next run takes for served.
func TestDefinitionsWhileTheRunEndsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newCRDServer([]gvr.Resource{robots, rovers})
		stopping := make(chan struct{}, 2)
		f := newFollower(t, srv, allCustom, &follow.Options{StatusChanged: func(s follow.ResourceStatus) {
			if s.State == follow.Starting {
				stopping <- struct{}{}
				time.Sleep(200 * time.Millisecond) // the other one is attached after it
			}
		}})
		f.start(t.Context())
		time.Sleep(10 * time.Second)
		change := func(do func(name string)) {
			for _, r := range []gvr.Resource{robots, rovers} {
				do(r.GroupResource().String())
			}
			time.Sleep(10 * time.Second)
		}
		remove := func(name string) {
			if _, err := srv.Delete(crds, "", name); err != nil {
				t.Error(err)
			}
		}
		change(remove)
		f.do("customresourcedefinitions forbid all", "customresourcedefinitions close watches")
		change(func(name string) { srv.Put(crds, "", name) }) // both are in the next snapshot
		f.do("customresourcedefinitions allow all")
		<-stopping
		if err := f.stop(); err != nil {
			t.Error(err)
		}
		change(remove)
		srv.Unserve(robots, rovers)
		f.start(t.Context())
		time.Sleep(time.Minute)
		for _, r := range []gvr.Resource{robots, rovers} {
			if s := f.status(r.GroupResource().String()); s.State != follow.Gone || s.Cause != nil {
				t.Errorf("the status is %+v, want Gone without a cause", s)
			}
		}
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
}
