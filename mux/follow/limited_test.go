package follow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// manyNamespaces follows robots, which may not be watched, on a server with n namespaces, with a client that sends at
// most qps requests a second.
func manyNamespaces(t *testing.T, n int, qps float32, served ...gvr.Resource) *follower {
	srv := streamtest.NewServer(append([]gvr.Resource{robots, spaces}, served...)...)
	for i := range n {
		srv.Put(spaces, "", fmt.Sprintf("n%04d", i))
	}
	cfg := srv.Config()
	cfg.QPS, cfg.Burst = qps, int(qps)
	f := newFollowerWith(t, srv, cfg, follow.Selection{Resources: []string{"*.example.com"}}, nil)
	f.do("robots forbid all")
	return f
}

// checks returns the times of the requests that find out what may be watched, from that time on. In n0001 the probe of
// a watch looks the same as a check without reviews.
func (f *follower) checks(from time.Time) (times []time.Duration) {
	for _, q := range f.srv.Requests() {
		isCheck := strings.HasPrefix(q.Resource, "selfsubject") ||
			q.IsProbe() && q.Namespace != "n0001"
		if isCheck && !q.At.Before(from) {
			times = append(times, q.At.Sub(from))
		}
	}
	return times
}

// What is due is asked as fast as the client allows, then five requests are sent in a second.
func TestEveryNamespaceIsAskedByALimitedClient(t *testing.T) {
	tests := []struct {
		namespaces int
		granted    time.Duration // after the beginning
		in         string
		within     time.Duration
		last       bool // everything has been asked by then
		why        string
	}{
		{500, 0, "n0499", 20 * time.Second, true, "500 requests, 50 in a second, and one more interval"},
		{2500, 0, "n2499", 60 * time.Second, true, "2,500 requests"},
		{1500, 0, "n0000", 12 * time.Second, false, "the first answers are not held back for the last ones"},
		{700, 2 * time.Minute, "n0699", 2*time.Minute + 35*time.Second, false, "at rest five are asked in a second"},
		{200, 2 * time.Minute, "n0199", time.Minute, false, "up to 300 requests take a minute at most"},
		{700, 2 * time.Minute, "", 15 * time.Second, false, "at rest the next namespace shows a right to the cluster"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.namespaces, " ", tt.in, " after ", tt.granted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := manyNamespaces(t, tt.namespaces, 50, apiserver.Reviews()...)
				f.start(t.Context())
				time.Sleep(tt.granted)
				granted, want := time.Now(), []string(nil)
				if tt.in == "" {
					f.do("robots allow")
				} else {
					f.do("robots allow all in " + tt.in)
					want = []string{tt.in}
				}
				f.within(tt.within, tt.why, func() bool {
					is := f.status("robots.example.com")
					return (is.State == follow.Watching || len(want) > 0) && slices.Equal(is.Namespaces, want)
				})
				t.Logf("found after %v, with %d checks", time.Since(granted), len(f.checks(granted)))
				found := time.Now()
				time.Sleep(time.Minute)
				if n := len(f.checks(found)); tt.last && n > 310 {
					t.Errorf("%d checks in the minute after the last answer, want at most five a second", n)
				}
				f.stop()
			})
		})
	}
}

// At rest all checks together are at most five requests a second, evenly spread.
func TestChecksAtRestAreFew(t *testing.T) {
	tests := []struct {
		namespaces, types int
		served            []gvr.Resource
		refused           bool // although the reviews allow it
		least             int  // checks in five minutes
		why               string
	}{
		{700, 3, apiserver.Reviews(), false, 500, "the rules of each namespace"},
		{30, 12, apiserver.Reviews()[:1], false, 500, "a server without rules: each resource in each namespace"},
		{30, 12, nil, false, 500, "a server without reviews"},
		{3, 1, apiserver.Reviews(), false, 50, "few namespaces"},
		{100, 1, apiserver.Reviews(), true, 10, "reviews that allow what the server refuses"},
	}
	for _, tt := range tests {
		t.Run(tt.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := manyNamespaces(t, tt.namespaces, -1, tt.served...)
				for i := range tt.types - 1 {
					r := kindOf(fmt.Sprintf("things%02dxs", i), "example.com", "v1", i%4 > 0)
					f.srv.Serve(r)
					f.do(r.Resource + " forbid all")
				}
				f.do("robots allow all in n0001")
				most := 10 // in two seconds
				if tt.refused {
					most += 2 // list and watch, across the cluster
					f.do("robots allow")
					f.apply("robots initial *: 403\nrobots watch *: 403\nrobots probe *: 403\n")
				}
				f.start(t.Context())
				time.Sleep(2 * time.Minute)
				from := time.Now()
				time.Sleep(5 * time.Minute)
				times := f.checks(from)
				if n := len(times); n > 1500 || n < tt.least {
					t.Errorf("%s: %d checks in 5 minutes", tt.why, n)
				}
				for i := range times {
					if i >= most && times[i]-times[i-most] < 2*time.Second {
						t.Fatalf("%s: %d checks from %v to %v", tt.why, most+1, times[i-most], times[i])
					}
				}
				f.stop()
			})
		})
	}
}

// At rest, what looks like a change of rights is checked at once.
func TestChangesAtRestAreCheckedAtOnce(t *testing.T) {
	const namespaces = 300
	tests := []struct {
		name   string
		do     func(*follower)
		checks int // at least
		in     []string
		within time.Duration
		why    string
	}{
		{"refusal", func(f *follower) { f.do("robots forbid all in n0001", "robots close watches") }, namespaces, nil,
			time.Second, "a refusal may concern every namespace"},
		{"new right", func(f *follower) {
			for i := 50; i < namespaces; i += 50 {
				f.do(fmt.Sprintf("robots allow all in n%04d", i))
			}
		}, namespaces, []string{"n0001", "n0050", "n0100", "n0150", "n0200", "n0250"}, 25 * time.Second,
			"the first new right makes all others worth checking"},
		{"new namespace", func(f *follower) {
			f.srv.Put(spaces, "", "new")
			f.do("robots allow all in new")
		}, 1, []string{"n0001", "new"}, time.Second, "a new namespace is checked at once"},
		{"new namespace, later right", func(f *follower) {
			f.srv.Put(spaces, "", "new")
			time.Sleep(50 * time.Second)
			f.do("robots allow all in new")
		}, 1, []string{"n0001", "new"}, 15 * time.Second, "and several times in its first minute"},
		{"new type", func(f *follower) {
			f.srv.Serve(rovers)
			f.do("rovers forbid all", "rovers allow all in n0001")
		}, namespaces, []string{"n0001"}, 5 * time.Second, "a resource that is refused is checked everywhere"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := manyNamespaces(t, namespaces, -1, apiserver.Reviews()...)
				f.do("robots allow all in n0001")
				f.start(t.Context())
				time.Sleep(2 * time.Minute)
				tt.do(f)
				from, key := time.Now(), "robots.example.com"
				if tt.name == "new type" {
					key = "rovers.example.com"
				}
				f.within(tt.within, tt.why, func() bool {
					return len(f.checks(from)) >= tt.checks && slices.Equal(f.status(key).Namespaces, tt.in)
				})
				f.stop()
			})
		})
	}
}
