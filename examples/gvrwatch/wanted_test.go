package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/gvr"
)

// TestArguments: types and names are read as kubectl get reads them, and as gvr.ParseRef reads types with slashes.
func TestArguments(t *testing.T) {
	pods, deploy := gvr.Ref{Name: "pods"}, gvr.Ref{Group: "apps", Version: "v1", Name: "Deployment"}
	for _, c := range []struct {
		why, args string
		want      []target
		patterns  []string
	}{
		{"a type", "pods", []target{{pods, ""}}, nil},
		{"an object", "pods web-0", []target{{pods, "web-0"}}, nil},
		{"an object in one word", "pods/web-0", []target{{pods, "web-0"}}, nil},
		{"several objects", "pods a b", []target{{pods, "a"}, {pods, "b"}}, nil},
		{"several types with one name", "pods,apps/v1/Deployment a", []target{{pods, "a"}, {deploy, "a"}}, nil},
		{"several words", "pods/a apps/v1/Deployment/b", []target{{pods, "a"}, {deploy, "b"}}, nil},
		{"a version and a type", "v1/pods", []target{{gvr.Ref{Version: "v1", Name: "pods"}, ""}}, nil},
		{"a version, a type and a name", "v1/pods/a", []target{{gvr.Ref{Version: "v1", Name: "pods"}, "a"}}, nil},
		{"a group with a dot", "deployments.apps/web",
			[]target{{gvr.Ref{Group: "apps", Name: "deployments"}, "web"}}, nil},
		{"a group that looks like a version", "v1.example.com/pods",
			[]target{{gvr.Ref{Group: "v1.example.com", Name: "pods"}, ""}}, nil},
		{"names of RBAC have colons", "pods system:node", []target{{pods, "system:node"}}, nil},
		{"a pattern and a type", "*.example.com,pods", []target{{pods, ""}}, []string{"*.example.com"}},
	} {
		var want wanted
		if err := (&watchOptions{}).checkArgs(strings.Fields(c.args), &want); err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		diff := cmp.Diff(c.want, want.targets, cmp.AllowUnexported(target{})) + cmp.Diff(c.patterns, want.patterns)
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.why, diff)
		}
	}
}

// TestHelpOfAll: the command that --all's help and error name watches what --all leaves out.
func TestHelpOfAll(t *testing.T) {
	s := newScripted(t, robotType, newType("events", "", true), leaseType)
	s.Put(robotType, "default", "a")
	s.Put(newType("events", "", true), "default", "b")
	s.Put(leaseType, "default", "c")
	const all = "event/b lease.coordination.k8s.io/c robot.example.com/a"
	get := func(args string) string {
		stdout, _ := s.start("get -o name -A " + args).wait(0)
		names := strings.Fields(stdout)
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if got := get("--all"); got != "robot.example.com/a" {
		t.Errorf("--all prints %s", got)
	}
	_, help, _ := runTool(t, "options")
	_, _, refused := runTool(t, strings.Fields("watch events,leases --all")...)
	for _, text := range []string{strings.Join(strings.Fields(help), " "), refused} {
		named := regexp.MustCompile(`'(\*,[^']+)'`).FindStringSubmatch(text)
		if named == nil {
			t.Errorf("no command in %s", text)
		} else if got := get(named[1]); got != all {
			t.Errorf("%s prints %s, want %s", named[1], got, all)
		}
	}
}
