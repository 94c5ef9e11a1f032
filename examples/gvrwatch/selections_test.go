package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWatchSelections(t *testing.T) {
	oddType := newType("oddities", "odd.io", true, "odd")
	oddType.Verbs = []string{"list"}
	s := newScripted(t, robotType, roverType, probeType, planetType, leaseType, oddType)
	for _, name := range []string{"default", "web"} {
		s.Put(robotType, name, "r-"+name)
		s.Put(roverType, name, "o-"+name)
		s.Put(probeType, name, "p-"+name)
		s.Put(leaseType, name, "l-"+name)
	}
	s.Put(planetType, "", "mars")
	const nothing = ": matches no served type"
	tests := []struct{ args, stdout, stderr, why string }{
		{"*", "o-default p-default r-default", "", "* leaves out cluster-scoped types and leases"},
		{"--all", "o-default p-default r-default", "", "--all means *"},
		{"--all -n web", "o-web p-web r-web", "", "-n selects the namespace"},
		{"--all -A", "mars o-default o-web p-default p-web r-default r-web", "",
			"-A selects all namespaces and cluster-scoped types"},
		{"*,leases -n web", "l-web o-web p-web r-web", "", "a name overrides the default exclusions"},
		{"*.example.com -n web", "o-web r-web", "", "a pattern selects a group, without its subdomains"},
		{"*.example.com,*.space.io -A", "mars o-default o-web r-default r-web", "", "two patterns select both groups"},
		{"r*.example.com --exclude rov* -n web", "r-web", "", "--exclude removes types of a pattern"},
		{"* --exclude robots --exclude *.sub.example.com,planets -A", "o-default o-web", "",
			"--exclude may be repeated and have several patterns"},
		{"planets,*.sub.example.com -n web", "mars p-web", "", "a named cluster-scoped type is watched without -A"},
		{"--category space -A", "mars p-default p-web", "", "--category selects its types"},
		{"--category space,all -n web", "p-web r-web", "", "a type of two categories is watched once"},
		{"all -n web", "p-web r-web", "", "a name can be a category, as in kubectl get all"},
		{"ALL -n web", "p-web r-web", "", "categories ignore case, as names do"},
		{"--category odd", "", "category odd: no type of it can be watched",
			"the types of a category lack the verb watch"},
		{"odd --follow", "", "category odd: no type of it can be watched", "the same for a name"},
		{"planets,all -n web", "mars p-web r-web", "", "a category can be named beside a type"},
		{"all,gone.example.com -n web", "p-web r-web", "gone.example.com: not served yet",
			"a name beside a category is followed"},
		{"*.nobody.com", "", "*.nobody.com" + nothing, "a pattern without a match is reported, but is not an error"},
		{"*.example.com,x* -n web", "o-web r-web", "x*" + nothing, "each pattern without a match is reported"},
		{"--category none", "", "category none" + nothing, "a category without types is reported"},
		{"*.space.io", "", "*.space.io: matches only cluster-scoped types, which need -A",
			"a pattern that needs -A is reported"},
		{"* --exclude *", "", "*" + nothing, "a pattern whose types are all excluded is reported"},
		{"robots --follow", "r-default", "", "a served type is followed in the namespace"},
		{"robtos --follow", "", "robtos: not served yet; did you mean robots.v1.example.com?",
			"a followed name that is not served lists similar ones"},
		{"robots,rovers,robots.v1.example.com --follow -A -l a=b", "",
			`no robots, rovers with the labels "a=b" found across all namespaces`,
			"selectors apply to all followed types"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			p := s.start("watch " + tt.args + " --until-synced --allow-missing -o name")
			stdout, stderr := p.wait(0)
			var names, status []string
			for line := range strings.Lines(stdout) {
				_, name, _ := strings.Cut(strings.TrimSpace(line), "/")
				names = append(names, name)
			}
			for line := range strings.Lines(stderr) {
				if !strings.Contains(line, ": synced at resourceVersion ") {
					status = append(status, strings.TrimPrefix(strings.TrimSpace(line), "gvrwatch: "))
				}
			}
			slices.Sort(names)
			got := []string{strings.Join(names, " "), strings.Join(status, "\n")}
			if diff := cmp.Diff([]string{tt.stdout, tt.stderr}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.why, diff)
			}
		})
	}
}

// A type that no path can have is reported, and the others are watched.
func TestTypeThatCannotBeWatchedEndsNobodyElse(t *testing.T) {
	s := newScripted(t, newType("a%b", "example.com", true), robotType, newType("..", "example.com", true))
	s.Put(robotType, "default", "r-default")
	stdout, stderr := s.start("watch *.example.com --until-synced -o name").wait(1)
	if stdout != "robot.example.com/r-default\n" {
		t.Errorf("stdout is %q", stdout)
	}
	for _, want := range []string{
		"a%b.v1.example.com: failing", "example.com/v1/..: failing", "not seen: example.com/v1/..,",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr is %q, want %q", stderr, want)
		}
	}
}
