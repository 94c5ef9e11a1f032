package follow_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestMain trades memory for time: the tests poll discovery each second of many hours.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	m.Run()
}

func kindOf(plural, group, version string, namespaced bool) gvr.Resource {
	kind := strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
	return gvr.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: plural},
		Kind:                 kind, Singular: strings.ToLower(kind), Namespaced: namespaced,
		Verbs: []string{"create", "delete", "get", "list", "watch"},
	}
}

var (
	robots   = kindOf("robots", "example.com", "v1", true)
	robotsV2 = kindOf("robots", "example.com", "v2", true)
	rovers   = kindOf("rovers", "example.com", "v1", true)
	planets  = kindOf("planets", "space.io", "v1", false)
	spaces   = kindOf("namespaces", "", "v1", false)
)

// watchedWith returns what follow.Options.Source may be, for all resources.
func watchedWith(o stream.Options, run stream.Run) func(gvr.Resource) (stream.Options, stream.Run) {
	return func(gvr.Resource) (stream.Options, stream.Run) { return o, run }
}

// follower runs a Mux and records what it delivers.
type follower struct {
	*testing.T
	srv   *streamtest.Server
	m     *follow.Mux
	began time.Time
	// handle, if not nil, handles each event in the loop body.
	handle func(stream.Event)

	mu     sync.Mutex
	events []stream.Event
	lines  []string // the events as text, since the last take
	states []string // as StatusChanged reported them
	ended  chan error
}

func newFollower(t *testing.T, srv *streamtest.Server, sel follow.Selection, opts *follow.Options) *follower {
	return newFollowerWith(t, srv, srv.Config(), sel, opts)
}

func newFollowerWith(
	t *testing.T, srv *streamtest.Server, cfg *rest.Config, sel follow.Selection, opts *follow.Options,
) *follower {
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{T: t, srv: srv, began: time.Now(), ended: make(chan error, 1)}
	o := follow.Options{}
	if opts != nil {
		o = *opts
	}
	changed := o.StatusChanged
	o.StatusChanged = func(s follow.ResourceStatus) {
		name := s.Resource.GroupResource().String()
		if s.Resource.Resource == "" {
			name = s.Ref.String()
		}
		f.mu.Lock()
		f.states = append(f.states,
			strings.TrimSpace(fmt.Sprintf("%s %s %s", name, s.State, strings.Join(s.Namespaces, ","))))
		f.mu.Unlock()
		if changed != nil {
			changed(s)
		}
	}
	dc, err := discovery.NewClient(srv.Config())
	if err != nil {
		t.Fatal(err)
	}
	f.m, err = follow.New(discovery.NewResolver(dc, 0), client, sel, &o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// start runs the Mux until Stop or the end of ctx.
func (f *follower) start(ctx context.Context) {
	go func() {
		var last error
		for ev, err := range f.m.Events(ctx) {
			if err != nil {
				last = err
				break
			}
			f.mu.Lock()
			f.events = append(f.events, ev)
			f.lines = append(f.lines, mux.SourceOf(ev)+" "+ev.String())
			f.mu.Unlock()
			if f.handle != nil {
				f.handle(ev)
			}
		}
		f.ended <- last
	}()
}

// take returns what was delivered since the last take.
func (f *follower) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines = nil
	return lines
}

func (f *follower) stop() error {
	f.m.Stop()
	return <-f.ended
}

// end waits for the end of the run, which has to come within an hour.
func (f *follower) end(why string) error {
	f.Helper()
	select {
	case err := <-f.ended:
		return err
	case <-time.After(time.Hour):
		f.Errorf("the run does not end: %s\nstates: %s\nstatus: %+v", why, strings.Join(f.states, "\n"),
			f.m.Status().Resources)
		return f.stop()
	}
}

// status returns the status of a resource by its key, or zero.
func (f *follower) status(key string) follow.ResourceStatus {
	for _, one := range f.m.Status().Resources {
		if one.Resource.GroupResource().String() == key {
			return one
		}
	}
	return follow.ResourceStatus{}
}

func (f *follower) apply(script string) {
	f.Helper()
	if err := f.srv.Apply(script); err != nil {
		f.Fatal(err)
	}
}

func (f *follower) do(what ...string) {
	f.Helper()
	for _, w := range what {
		if err := f.srv.Do(w); err != nil {
			f.Fatal(err)
		}
	}
}

// after waits and compares what is delivered meanwhile.
func (f *follower) after(d time.Duration, why string, want ...string) {
	f.Helper()
	time.Sleep(d)
	if diff := cmp.Diff(want, f.take()); diff != "" {
		f.Errorf("at %v: %s (-want +got):\n%s\nstates: %s", time.Since(f.began), why, diff,
			strings.Join(f.states, "\n"))
	}
}

// A type is attached within two seconds of being served, and detached likewise.
func TestTypesAreAttachedWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(planets)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots.example.com", "*.space.io"}}, nil)
		f.start(t.Context())
		f.after(10*time.Second, "types that are not served are waited for", "planets.space.io SYNCED @1")
		want := []string{"planets.space.io Watching", "robots.example.com Unserved"}
		if diff := cmp.Diff(want, f.reported()); diff != "" {
			t.Errorf("what StatusChanged reported (-want +got):\n%s", diff)
		}
		srv.Serve(robots)
		srv.Put(robots, "one", "a", "spec.n=1")
		f.after(2*time.Second, "served: attached within two seconds", "robots.example.com ADDED one/a@2",
			"robots.example.com SYNCED @2")
		f.do("robots delete crd")
		f.after(2*time.Second, "removed: DELETED is delivered", "robots.example.com DELETED one/a@3")
		if got := f.state("robots.example.com"); got != "Gone" {
			t.Errorf("the state is %s two seconds after the type was removed, want Gone", got)
		}
		f.after(5*time.Second, "and nothing else is delivered")
		if got := f.state("robots.example.com"); got != "Gone" {
			t.Errorf("the state is %s, want Gone", got)
		}
		f.do("robots create crd")
		srv.Put(robots, "one", "a", "spec.n=1")
		time.Sleep(2 * time.Second)
		got := f.take()
		if !slices.Contains(got, "robots.example.com ADDED one/a@6 inferred") ||
			!strings.Contains(got[len(got)-1], "SYNCED") {
			t.Errorf("added again: %q, want GAP, ADDED and SYNCED within two seconds", got)
		}
		if n := f.status("robots.example.com").Incarnation; n != 2 {
			t.Errorf("the incarnation is %d, want 2", n)
		}
		srv.Put(planets, "", "mars", "spec.n=1")
		f.after(time.Second, "other types are not affected", "planets.space.io ADDED mars@7")
		if err := f.stop(); err != nil {
			t.Errorf("the run ended with %v", err)
		}
	})
}

// reported returns what StatusChanged has reported, sorted.
func (f *follower) reported() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.states))
}

func (f *follower) state(key string) string { return string(f.status(key).State) }

// The preferred version is no longer served.
func TestSequenceContinuesInAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, robotsV2)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots"}}, nil)
		srv.Put(robots, "one", "a", "spec.n=1")
		f.start(t.Context())
		f.after(2*time.Second, "the preferred version", "robots.example.com ADDED one/a@2",
			"robots.example.com SYNCED @2")
		version := f.events[0].Object.GetAPIVersion()
		if version != "example.com/v2" {
			t.Fatalf("the objects are %s", version)
		}
		srv.Unserve(robotsV2)
		f.do("robots close watches")
		srv.Put(robots, "one", "a", "spec.n=2")
		f.after(5*time.Second, "the other version: nothing is repeated or lost", "robots.example.com MODIFIED one/a@3")
		if got := f.events[len(f.events)-1].Object.GetAPIVersion(); got != "example.com/v1" {
			t.Errorf("the objects are %s, want the other version", got)
		}
		f.stop()
	})
}

// The version that discovery prefers does not matter.
func TestNamedVersionIsWatchedWhileServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, robotsV2)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots.v1.example.com"}}, nil)
		srv.Put(robots, "one", "a", "spec.n=1")
		f.start(t.Context())
		f.after(2*time.Second, "the version that was named", "robots.example.com ADDED one/a@2",
			"robots.example.com SYNCED @2")
		if version := f.events[0].Object.GetAPIVersion(); version != "example.com/v1" {
			t.Fatalf("the objects are %s", version)
		}
		srv.Unserve(robots)
		f.do("robots close watches")
		srv.Put(robotsV2, "one", "a", "spec.n=2")
		f.after(5*time.Second, "the other version: nothing is repeated or lost", "robots.example.com MODIFIED one/a@3")
		other := robotsV2
		other.ShortNames = []string{"rb"}
		srv.Serve(other)
		f.after(10*time.Second, "the name stays bound")
		srv.Put(robotsV2, "one", "b")
		f.after(time.Second, "the other version is still watched", "robots.example.com ADDED one/b@4")
		if got := f.state("robots.example.com"); got != "Watching" {
			t.Errorf("the state is %s", got)
		}
		srv.Serve(robots)
		f.after(12*time.Second, "the named version is served again: nothing is repeated")
		srv.Put(robots, "one", "a", "spec.n=3")
		f.after(time.Second, "and nothing is lost", "robots.example.com MODIFIED one/a@5")
		if version := f.events[len(f.events)-1].Object.GetAPIVersion(); version != "example.com/v1" {
			t.Errorf("the objects are %s", version)
		}
		f.stop()
	})
}

// A resource is watched where that is allowed.
func TestSequenceContinuesWhenRightsChange(t *testing.T) {
	tests := []struct {
		name string
		sel  follow.Selection
		why  string
	}{
		{"namespaces listed", follow.Selection{Resources: []string{"robots"}}, "the namespaces can be listed"},
		{"candidate namespaces",
			follow.Selection{Resources: []string{"robots"},
				CandidateNamespaces: []string{"one", "two", "three"}}, "the namespaces can't be listed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(robots, rovers, spaces)
				for _, n := range []string{"one", "two"} {
					srv.Put(spaces, "", n)
					srv.Put(robots, n, "a", "spec.n=1")
				}
				f := newFollower(t, srv, tt.sel, nil)
				if len(tt.sel.CandidateNamespaces) > 0 {
					f.do("namespaces forbid all")
				}
				f.do("robots forbid all", "robots allow all in one")
				f.start(t.Context())
				f.after(5*time.Second, "the resource is watched where that is allowed",
					"robots.example.com ADDED one/a@3", "robots.example.com SYNCED @5 in one")
				srv.Put(robots, "two", "a", "spec.n=2")
				srv.Put(robots, "one", "a", "spec.n=2")
				f.after(5*time.Second, "and not in other namespaces", "robots.example.com MODIFIED one/a@7")
				f.do("robots allow all in two")
				f.after(15*time.Second, "new rights are noticed", "robots.example.com ADDED two/a@6",
					"robots.example.com SYNCED")
				srv.Put(spaces, "", "three")
				srv.Put(robots, "three", "a", "spec.n=1")
				f.do("robots allow all in three")
				f.after(15*time.Second, "new namespaces are noticed", "robots.example.com ADDED three/a@9",
					"robots.example.com SYNCED")
				srv.Put(robots, "four", "a", "spec.n=1")
				f.do("robots allow")
				f.after(15*time.Second, "across the cluster: GAP and the differences",
					"robots.example.com GAP scope ..10", "robots.example.com ADDED four/a@10 inferred",
					"robots.example.com SYNCED @10")
				for _, n := range []string{"one", "two", "three", "four"} {
					srv.Put(robots, n, "a", "spec.n=3")
				}
				f.after(time.Second, "all namespaces are watched", "robots.example.com MODIFIED one/a@11",
					"robots.example.com MODIFIED two/a@12", "robots.example.com MODIFIED three/a@13",
					"robots.example.com MODIFIED four/a@14")
				f.do("robots forbid all", "robots allow all in two", "robots close watches")
				srv.Put(robots, "two", "a", "spec.n=4")
				srv.Put(robots, "one", "a", "spec.n=4")
				f.after(15*time.Second, "rights taken away: the namespaces that remain are compared",
					"robots.example.com GAP scope 14..16 in two", "robots.example.com MODIFIED two/a@15 inferred",
					"robots.example.com SYNCED @16 in two")
				f.do("robots allow")
				f.after(15*time.Second, "rights given back: changes in between are delivered",
					"robots.example.com GAP scope 14..16", "robots.example.com MODIFIED one/a@16 inferred",
					"robots.example.com SYNCED @16")
				if err := f.stop(); err != nil {
					t.Errorf("the run ended with %v", err)
				}
			})
		})
	}
}

// Run.RetryRefused changes nothing.
func TestRefusedResourcesDoNotAffectOthers(t *testing.T) {
	for _, retries := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(robots, rovers)
			run := stream.Run{RetryRefused: retries}
			f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}}, &follow.Options{
				Source: func(gvr.Resource) (stream.Options, stream.Run) { return stream.Options{}, run },
			})
			f.do("robots forbid all")
			if err := srv.Apply("rovers list 1-*: 405\nrovers initial 1-*: 405\n"); err != nil {
				t.Fatal(err)
			}
			srv.Serve(planets)
			f.start(t.Context())
			f.after(time.Minute, "two resources fail, the third is watched", "planets.space.io SYNCED @1")
			a, b := f.state("robots.example.com"), f.state("rovers.example.com")
			if a != "Forbidden" || b != "Failing" {
				t.Errorf("RetryRefused %t: the states are %s and %s, want Forbidden and Failing", retries, a, b)
			}
			f.do("heal")
			time.Sleep(6 * time.Minute)
			a, b = f.state("robots.example.com"), f.state("rovers.example.com")
			if a != "Watching" || b != "Watching" {
				t.Errorf("the states are %s and %s, want Watching after the faults end", a, b)
			}
			if got := f.take(); len(got) != 2 {
				t.Errorf("delivered %q, want SYNCED of both", got)
			}
			f.stop()
		})
	}
}
