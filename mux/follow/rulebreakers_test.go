package follow_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver/door"
	"github.com/gvrwatch/gvrwatch/internal/testing/servers"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestTypeThatBreaksRulesDisturbsNobodyElse: an aggregated API server that breaks a rule is one of many behind a
// kube-apiserver (argoproj/gitops-engine#704, antrea-io/antrea#8123).
func TestTypeThatBreaksRulesDisturbsNobodyElse(t *testing.T) {
	tests := []struct {
		why    string
		robots servers.Personality
		gap    bool // says so
	}{
		{"its lists have no version", servers.NoListVersion(), true},
		{"its watches begin with what exists", servers.RestartsWatches(0), true},
		{"its versions do not grow", servers.Unordered(), false},
		{"one object can't be converted", servers.WebhookDown("g"), false},
		{"it does not end watches", servers.IgnoresTimeout(time.Hour), false},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			srv := streamtest.NewServer(robots, rovers)
			srv.Put(robots, "one", "a")
			srv.Put(rovers, "one", "b")
			odd := tt.robots.Before(srv)
			cfg := &rest.Config{Host: "http://servers", QPS: -1, Transport: door.Transport{
				Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.HasSuffix(r.URL.Path, "/robots") {
						odd.ServeHTTP(w, r)
					} else {
						srv.ServeHTTP(w, r)
					}
				})}}
			f := newFollowerWith(t, srv, cfg, follow.Selection{Resources: []string{"*.example.com"}}, nil)
			f.start(t.Context())
			time.Sleep(time.Minute)
			_, err := srv.Delete(robots, "one", "a")
			if err != nil {
				t.Fatal(err)
			}
			srv.Put(robots, "one", "g")
			f.do("close watches")
			time.Sleep(7 * time.Minute)
			srv.Put(rovers, "one", "b", "spec.x=1")
			time.Sleep(7 * time.Minute)
			if _, err := srv.Delete(robots, "one", "g"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(7 * time.Minute)
			var ofRobots, ofRovers []string
			for _, line := range f.take() {
				if one, ok := strings.CutPrefix(line, "rovers.example.com "); ok {
					ofRovers = append(ofRovers, one)
				} else {
					ofRobots = append(ofRobots, strings.TrimPrefix(line, "robots.example.com "))
				}
			}
			want := []string{"ADDED one/b@3", "SYNCED @3", "MODIFIED one/b@6"}
			if diff := cmp.Diff(want, ofRovers); diff != "" {
				t.Errorf("%s: the other type (-want +got):\n%s", tt.why, diff)
			}
			has := func(part string) bool {
				return slices.ContainsFunc(ofRobots, func(s string) bool { return strings.HasPrefix(s, part) })
			}
			lacks := !has("ADDED one/a@") || !has("SYNCED") || !has("DELETED one/a@")
			lacks = lacks || has("ADDED one/g@") && !has("DELETED one/g@") || tt.gap && !has("GAP un")
			if lacks {
				t.Errorf("%s: its own sequence lacks something: %q", tt.why, ofRobots)
			}
			if is := f.status("robots.example.com"); is.State != follow.Watching {
				t.Errorf("%s: the state is %s: %v", tt.why, is.State, is.Cause)
			}
			if err := f.stop(); err != nil {
				t.Errorf("%s: the run ended with %v", tt.why, err)
			}
		})
	}
}
