package follow_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// A name is resolved again even if no resource is added that it may stand for.
func TestUnresolvedNameIsResolvedAgain(t *testing.T) {
	others := kindOf("robots", "other.io", "v1", true)
	noWatch := robots
	noWatch.Verbs = []string{"get"}
	var ambiguous *discovery.AmbiguousError
	var notWatchable *stream.NotWatchableError
	tests := []struct {
		name   string
		ref    string
		served []gvr.Resource
		before string // of the script
		cause  func(error) bool
		change func(*follower)
		want   []string
		why    string
	}{
		{"no resource has the name", "robots", []gvr.Resource{planets}, "", func(err error) bool { return err == nil },
			func(f *follower) { f.srv.Serve(robots) }, []string{"robots.example.com SYNCED @1"},
			"the resource is served later"},
		{"ambiguous", "robots", []gvr.Resource{robots, others}, "",
			func(err error) bool { return errors.As(err, &ambiguous) },
			func(f *follower) { f.srv.Unserve(others) }, []string{"robots.example.com SYNCED @1"},
			"one of two resources is removed"},
		{"another version", "robots.v1.example.com", []gvr.Resource{robotsV2}, "",
			func(err error) bool { return err != nil },
			func(f *follower) { f.srv.Serve(robots) }, []string{"robots.example.com SYNCED @1"},
			"the version that was named is added"},
		{"discovery fails", "robots", []gvr.Resource{robots}, "discovery 3-8: 503\n", nil, func(*follower) {},
			[]string{"robots.example.com SYNCED @1"}, "discovery is repeated"},
		{"not watchable", "robots", []gvr.Resource{noWatch}, "",
			func(err error) bool { return errors.As(err, &notWatchable) },
			func(f *follower) { f.srv.Serve(robots) }, []string{"robots.example.com SYNCED @1"},
			"the resource becomes watchable"},
		{"its group is down", "robots.example.com", []gvr.Resource{robots, others}, "", nil,
			func(f *follower) { f.do("discovery up example.com") }, []string{"robots.example.com SYNCED @1"},
			"the group is up again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := streamtest.NewServer(tt.served...)
				f := newFollower(t, srv, follow.Selection{Resources: []string{tt.ref}}, nil)
				f.apply(tt.before)
				if tt.name == "its group is down" {
					f.do("discovery down example.com")
				}
				f.start(t.Context())
				if tt.cause != nil {
					f.after(time.Minute, "the name is not bound yet")
					is := f.m.Status().Resources[0]
					if is.State != follow.Unserved || is.Ref.String() != tt.ref || !tt.cause(is.Cause) {
						t.Errorf("the state is %s, of %s: %v", is.State, is.Ref, is.Cause)
					}
				}
				tt.change(f)
				f.after(10*time.Minute, tt.why, tt.want...)
				if is := f.m.Status().Resources[0]; is.State != follow.Watching || is.Cause != nil ||
					is.Ref.String() != tt.ref {
					t.Errorf("%s: the state is %s, of %s: %v", tt.why, is.State, is.Ref, is.Cause)
				}
				f.stop()
			})
		})
	}
}

// Discovery resolves a name (discovery.TestNamesAreThoseOfKubectl), also when more resources have it later.
func TestNameStandsForWhatDiscoverySays(t *testing.T) {
	taker := kindOf("namespace", "zz.io", "v1", true)
	tests := []struct{ ref, want, why string }{
		{"robots.ex", "robots.example.com", "how the group begins"},
		{"robots.", "robots.example.com", "no group"},
		{"namespace", "namespaces", "a type of another group has the singular as its plural"},
		{"namespace.z", "namespace.zz.io", "that type, by how its group begins"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(taker)
			f := newFollower(t, srv, follow.Selection{Resources: []string{tt.ref}, Exclude: []string{tt.ref}}, nil)
			srv.Serve(robots)
			srv.Serve(spaces)
			f.start(t.Context())
			f.after(5*time.Minute, tt.why, tt.want+" SYNCED @1")
			f.stop()
		})
	}
}

// The resource has two names.
func TestFirstNameDecidesTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, robotsV2)
		names := []string{"robots.v1.example.com", "robots.v2.example.com"}
		f := newFollower(t, srv, follow.Selection{Resources: names}, nil)
		f.start(t.Context())
		f.after(5*time.Minute, "the resource is watched once", "robots.example.com SYNCED @1")
		for _, q := range srv.Requests() {
			if q.Resource == "robots.v2.example.com" {
				t.Errorf("a %s of the other version at %v", q.Verb, q.At)
			}
		}
		f.stop()
	})
}

func TestSyncedFollowsAGapAcrossVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots"}}, nil)
		f.start(t.Context())
		f.after(time.Minute, "before", "robots.example.com SYNCED @1")
		f.apply("robots watch 2-*: 503")
		f.expire()
		f.after(5*time.Minute, "the snapshot is read, but no watch opens", "robots.example.com GAP expired 1..3",
			"robots.example.com ADDED one/a@3 inferred")
		srv.Serve(robotsV2)
		srv.Unserve(robots)
		time.Sleep(10 * time.Second)
		f.do("heal")
		f.after(time.Minute, "the watch is open", "robots.example.com SYNCED @3")
		f.stop()
	})
}

// A name has a Cause exactly while its group does not answer.
func TestNameOfDownGroupHasACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(planets, rovers)
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots.example.com", "moons.space.io"}}, nil)
		f.do("discovery down example.com")
		f.start(t.Context())
		known := func() map[string]bool {
			time.Sleep(5 * time.Minute)
			known := map[string]bool{}
			for _, one := range f.m.Status().Resources {
				known[one.Ref.String()] = one.Cause == nil
			}
			return known
		}
		if diff := cmp.Diff(map[string]bool{"robots.example.com": false, "moons.space.io": true}, known()); diff != "" {
			t.Errorf("while one group is down (-want +got):\n%s", diff)
		}
		f.do("discovery up example.com")
		if diff := cmp.Diff(map[string]bool{"robots.example.com": true, "moons.space.io": true}, known()); diff != "" {
			t.Errorf("when it is up again (-want +got):\n%s", diff)
		}
		f.stop()
	})
}

// The resource is attached when it returns.
func TestResourceThatLeavesItsCategoryIsDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		member := robots
		member.Categories = []string{"machines"}
		srv := streamtest.NewServer(member, planets)
		f := newFollower(t, srv, follow.Selection{Categories: []string{"machines"}}, nil)
		f.start(t.Context())
		f.after(10*time.Second, "the resource is in the category", "robots.example.com SYNCED @1")
		srv.Serve(robots)
		time.Sleep(time.Minute)
		if is := f.status("robots.example.com"); is.State != follow.Gone || is.Cause == nil {
			t.Errorf("the resource has left the category, and its state is %s: %v", is.State, is.Cause)
		}
		srv.Put(robots, "one", "a")
		f.after(time.Minute, "the resource is no longer selected")
		srv.Serve(member)
		f.after(time.Minute, "back in the category, changes in between are delivered once",
			"robots.example.com ADDED one/a@2")
		f.stop()
	})
}
