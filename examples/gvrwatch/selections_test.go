package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWatchSelections(t *testing.T) {
	s := newScripted(t, robotType, roverType, probeType, planetType, leaseType)
	for _, name := range []string{"default", "web"} {
		s.Put(robotType, name, "r-"+name)
		s.Put(roverType, name, "o-"+name)
		s.Put(probeType, name, "p-"+name)
		s.Put(leaseType, name, "l-"+name)
	}
	s.Put(planetType, "", "mars")
	const nothing = ": nothing that is served matches: waiting"
	tests := []struct{ args, stdout, stderr, why string }{
		{"*", "o-default p-default r-default", "", "every type, in the namespace; what lives in none is left out, as leases are"},
		{"--all", "o-default p-default r-default", "", "the same"},
		{"--all -n web", "o-web p-web r-web", "", "in another one"},
		{"--all -A", "mars o-default o-web p-default p-web r-default r-web", "", "in all, and in none"},
		{"*,leases -n web", "l-web o-web p-web r-web", "", "what is named is not left out"},
		{"*.example.com -n web", "o-web r-web", "", "those of a group"},
		{"*.example.com,*.space.io -A", "mars o-default o-web r-default r-web", "", "those of two"},
		{"r*.example.com --exclude rov* -n web", "r-web", "", "those of a group, less some"},
		{"* --exclude robots --exclude *.sub.example.com,planets -A", "o-default o-web", "", "some left out, repeated and with commas"},
		{"planets,*.sub.example.com -n web", "mars p-web", "", "what is named is watched, wherever it lives"},
		{"--category space -A", "mars p-default p-web", "", "a category"},
		{"--category space,all -n web", "p-web r-web", "", "two, of which one type has both"},
		{"all -n web", "p-web r-web", "", "a name that is a category's, as in kubectl get all"},
		{"planets,all -n web", "mars p-web r-web", "", "beside another one"},
		{"all,gone.example.com -n web", "p-web r-web", "gone.example.com: not served yet: waiting", "and then names are waited for"},
		{"*.nobody.com", "", "*.nobody.com" + nothing, "it may match some day"},
		{"*.example.com,x* -n web", "o-web r-web", "x*" + nothing, "one of several"},
		{"--category none", "", "category none" + nothing, "a category of nothing"},
		{"*.space.io", "", "*.space.io: only types that live in no namespace match, which takes -A: waiting", "why nothing comes is said"},
		{"* --exclude *", "", "*" + nothing, "nothing is left"},
		{"robots --follow", "r-default", "", "one that is there, in the namespace"},
		{"robtos --follow", "", "robtos: not served yet: waiting; did you mean robots.v1.example.com?", "a slip can be seen"},
		{"robots,rovers,robots.v1.example.com --follow -A -l a=b", "", "", "selectors are for all of them"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			l := s.start("watch " + tt.args + " --until-synced -o name")
			stdout, stderr := l.wait(0)
			var names, said []string
			for line := range strings.Lines(stdout) {
				_, name, _ := strings.Cut(strings.TrimSpace(line), "/")
				names = append(names, name)
			}
			for line := range strings.Lines(stderr) {
				if !strings.Contains(line, ": synced at resourceVersion ") {
					said = append(said, strings.TrimPrefix(strings.TrimSpace(line), "gvrwatch: "))
				}
			}
			slices.Sort(names)
			if diff := cmp.Diff([]string{tt.stdout, tt.stderr}, []string{strings.Join(names, " "), strings.Join(said, "\n")}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}
