package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestUntilSyncedFailsIfSomethingWasNotSeen(t *testing.T) {
	tests := []struct{ args, do, unseen, why string }{
		{"robots,rovers", "", "", "nothing is missing"},
		{"robots,r*,* --category all -A", "", "", "nothing is missing that is selected twice"},
		{"nobody --follow", "", "nobody", "a name is not served"},
		{"robots,nobody.example.com,x.v1.y.z --follow", "", "nobody.example.com, x.v1.y.z", "names are not served"},
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
		{"*.example.com,planets -A", "discovery down sub.example.com", "", "no type of the API can be selected"},
		{"* --exclude *.sub.example.com -A", "discovery down sub.example.com", "", "all its types are excluded"},
	}
	for _, tt := range tests {
		t.Run(tt.args+" "+tt.do, func(t *testing.T) {
			types := streamtest.Reviews()
			s := newScripted(t, append(types, robotType, roverType, probeType, planetType, namespaceType)...)
			s.Put(namespaceType, "", "one")
			s.Put(robotType, "one", "a")
			if tt.do != "" {
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
