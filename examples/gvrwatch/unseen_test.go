package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
)

func TestUntilSyncedFailsIfSomethingWasNotSeen(t *testing.T) {
	tests := []struct{ args, do, unseen, why string }{
		{"robots,rovers", "", "", "nothing is missing"},
		{"robots,r*,* --category all -A", "", "", "nothing is missing that is selected twice"},
		{"nobody --follow", "", "nobody", "a name is not served"},
		{"robots,nobody.example.com,x.v1.y.z --follow", "", "nobody.example.com, x.v1.y.z", "names are not served"},
		{"q*,p*,o*,n*,m*,l*,k*,j*,i*,h*,g*,f*", "", "q*, o*, n*, m*, l*, k*, j*, i*, h*, g* and 1 more",
			"at most ten names are listed"},
		{"*.nobody.com,robots,x*", "", "*.nobody.com, x*", "patterns match nothing"},
		{"robots --category none,all", "", "category none", "a category has no types"},
		{"*.space.io", "", "*.space.io", "cluster-scoped types need -A"},
		{"* --exclude *", "", "*", "everything is excluded"},
		{"r*", "robots forbid all\nrovers forbid all", "robots.v1.example.com, rovers.v1.example.com",
			"everything is forbidden"},
		{"*.example.com,*.space.io -A", "robots forbid all", "robots.v1.example.com", "a type is forbidden"},
		{"robots --follow -A", "robots forbid all\nrobots allow all in one", "robots.v1.example.com",
			"a type is allowed in some namespaces only"},
		{"robots --follow -n one", "robots forbid all\nrobots allow all in one", "",
			"what is requested of the type is allowed"},
		{"*", "robots forbid all\ndiscovery down sub.example.com", "robots.v1.example.com, sub.example.com/v1",
			"an API does not answer"},
		{"--category all", "discovery down sub.example.com", "sub.example.com/v1", "the API may be in any category"},
		{"robots,rovers --follow", "robots initial *: 405\nrobots list *: 405", "robots.v1.example.com",
			"a type is failing"},
		{"robots,rovers --follow", "robots initial *: 404\nrobots list *: 404", "robots.v1.example.com",
			"a type is gone"},
		{"*.example.com,planets -A", "discovery down sub.example.com", "", "no type of the API can be selected"},
		{"* --exclude *.sub.example.com -A", "discovery down sub.example.com", "", "all its types are excluded"},
	}
	for _, tt := range tests {
		t.Run(tt.args+" "+tt.do, func(t *testing.T) {
			types := apiserver.Reviews()
			s := newScripted(t, append(types, robotType, roverType, probeType, planetType, namespaceType)...)
			s.Put(namespaceType, "", "one")
			s.Put(robotType, "one", "a")
			if strings.Contains(tt.do, ": ") {
				if err := s.Apply(tt.do); err != nil {
					t.Fatal(err)
				}
			} else if tt.do != "" {
				s.do(strings.Split(tt.do, "\n")...)
			}
			want, status := "", 0
			if tt.unseen != "" {
				want = "gvrwatch: --until-synced: not seen: " + tt.unseen + " (--allow-missing permits that)\n"
				status = 1
			}
			_, stderr := s.start("watch " + tt.args + " --until-synced").wait(status)
			_, got, found := strings.Cut(stderr, "gvrwatch: --until-synced")
			if found {
				got = "gvrwatch: --until-synced" + got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s\n%s", tt.why, diff, stderr)
			}
			if status != 0 {
				s.start("watch " + tt.args + " --until-synced --allow-missing").wait(0)
			}
		})
	}
}

// Only what the run itself has asked counts: an API that comes back at any moment has been watched, or is named.
func TestUntilSyncedCountsOnlyItsOwnPolls(t *testing.T) {
	for poll := 1; poll <= 5; poll++ {
		for _, tt := range []struct{ args, do, seen, unseen string }{
			{"*", "discovery up sub.example.com", "probes.v1.sub.example.com: synced", "sub.example.com/v1"},
			{"robots --follow", "unauthorized", "robots.v1.example.com: synced", "robots"},
		} {
			s := newScripted(t, robotType, roverType, probeType)
			s.do("discovery down sub.example.com")
			polls := 0
			hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/apis" {
					if polls++; polls == poll && (tt.args == "*" || poll > 3) { // the first 3 are needed
						s.do(tt.do)
					}
				}
				s.ServeHTTP(w, r)
			}))
			s.url = hs.URL
			p := s.start("watch " + tt.args + " --until-synced -o name")
			status, stderr := <-p.status, p.err.String()
			seen := strings.Contains(stderr, tt.seen)
			named := strings.Contains(stderr, "not seen: "+tt.unseen+" (")
			if seen == named || seen != (status == 0) {
				t.Errorf("%s, %q at poll %d: status %d\n%s", tt.args, tt.do, poll, status, stderr)
			}
			p.signal()
			hs.CloseClientConnections()
			hs.Close()
		}
	}
}

func TestUnavailable(t *testing.T) {
	part := &discovery.UnavailableError{
		GroupVersions: []schema.GroupVersion{{Group: "sub.example.com", Version: "v1"}, {Group: "x.io"}}, Err: io.EOF,
	}
	tests := []struct {
		args string
		err  error
		want string
		why  string
	}{
		{"*", nil, "", "everything is known"},
		{"robots --follow", &discovery.UnavailableError{Err: io.EOF}, "", "a name is seen or not served"},
		{"*", &discovery.UnavailableError{Err: io.EOF}, "what the server serves", "no API is known"},
		{"--category all", io.EOF, "what the server serves", "nothing says which APIs"},
		{"*", part, "sub.example.com/v1, x.io", "APIs that may have types"},
		{"*.x.io", part, "x.io", "of the group"},
		{"* --exclude u*,probes", part, "sub.example.com/v1, x.io", "only some types are excluded"},
		{"* --exclude *.x.io", part, "sub.example.com/v1", "all types of an API are excluded"},
	}
	for _, tt := range tests {
		o := watchOptions{}
		args := strings.Fields(tt.args)
		for i, arg := range args {
			switch arg {
			case "--exclude":
				o.what.exclude = strings.Split(args[i+1], ",")
			case "--category":
				o.what.categories = args[i+1:]
			}
		}
		want, err := o.check(slices.DeleteFunc(args[:1], func(s string) bool { return s[0] == '-' }))
		if err != nil {
			t.Fatal(err)
		}
		s := session{opts: &o}
		if diff := cmp.Diff(tt.want, strings.Join(s.unavailable(want, tt.err), ", ")); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", tt.args, tt.why, diff)
		}
	}
}
