package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
)

// TestFollowTypesThatComeAndGo creates and deletes a CRD on a real API server.
func TestFollowTypesThatComeAndGo(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	client := dynamic.NewForConfigOrDie(srv.Config())
	rafts := devserver.CRD{Group: "follow.example.com", Kind: "Raft", Namespaced: true}
	crds := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	create := func(name string) {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetAPIVersion("follow.example.com/v1")
		u.SetKind(rafts.Kind)
		u.SetName(name)
		c := client.Resource(rafts.Resource()).Namespace("default")
		if _, err := c.Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	byName := start(t, "watch", "rafts.follow.example.com,boats", "-A", "--follow", "-o", "name")
	byPattern := start(t, "watch", "*.follow.example.com", "-o", "json")
	both := []*program{byName, byPattern}
	byName.awaitStderr("rafts.follow.example.com: not served yet: waiting\n")
	byName.awaitStdout("boat.cli.example.com/bounty\n")
	byPattern.awaitStderr("*.follow.example.com: matches no served type: waiting\n")
	for _, state := range []string{"served now", "served again"} {
		if err := devserver.CreateCRDs(t.Context(), client, rafts); err != nil {
			t.Fatal(err)
		}
		create("kon-tiki")
		for _, p := range both {
			p.awaitStderr("rafts.v1.follow.example.com: " + state + ": watching\n")
		}
		byName.awaitStdout("raft.follow.example.com/kon-tiki\n")
		byPattern.awaitStdout(`"name":"kon-tiki"`)
		if err := crds.Delete(t.Context(), "rafts.follow.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		byName.awaitStdout("raft.follow.example.com/kon-tiki deleted\n")
		byPattern.awaitStdout(`{"type":"DELETED"`)
		for _, p := range both {
			p.awaitStderr("rafts.v1.follow.example.com: gone: waiting\n")
		}
	}
	for _, p := range both {
		_, stderr := p.end()
		if strings.Contains(stderr, "could not find") || strings.Count(stderr, "gone") != 2 {
			t.Errorf("each change must print one line:\n%s", stderr)
		}
	}
}

func TestFollowCheckpoint(t *testing.T) {
	s := newScripted(t, robotType, roverType, planetType)
	path := filepath.Join(t.TempDir(), "positions.db")
	watch := func(why, flags string, want ...string) {
		t.Helper()
		p := s.start("watch *.example.com,planets -o name --checkpoint " + path + " " + flags)
		stdout, stderr := p.wait(0)
		got := strings.Fields(strings.ReplaceAll(stdout, " deleted", ":deleted"))
		slices.Sort(got)
		if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s%s", why, diff, stderr)
		}
	}
	s.Put(robotType, "default", "a")
	s.Put(roverType, "default", "b")
	s.Put(planetType, "", "mars")
	watch("the first run prints everything", "--until-synced",
		"planet.space.io/mars", "robot.example.com/a", "rover.example.com/b")
	watch("nothing is printed if nothing has changed", "--until-synced")
	s.Put(robotType, "default", "c")
	if _, err := s.Delete(roverType, "default", "b"); err != nil {
		t.Fatal(err)
	}
	watch("without --until-synced the events since the checkpoint are printed", "--limit 2",
		"robot.example.com/c", "rover.example.com/b:deleted")
	s.Put(planetType, "", "venus")
	if _, err := s.Delete(robotType, "default", "a"); err != nil {
		t.Fatal(err)
	}
	watch("with --until-synced only the differences are printed", "--until-synced",
		"planet.space.io/venus", "robot.example.com/a:deleted")
	_, stdout, _ := runTool(t, "checkpoint", "show", path, "-o", "name")
	if diff := cmp.Diff("planets.space.io\nrobots.example.com\nrovers.example.com\n", stdout); diff != "" {
		t.Errorf("each type has its own checkpoint (-want +got):\n%s", diff)
	}
}

func TestTwoVersions(t *testing.T) {
	v2 := robotType
	v2.GroupVersionResource.Version = "v2"
	s := newScripted(t, robotType, v2)
	s.Put(robotType, "default", "a")
	const both = "watch robots.v1.example.com,robots.v2.example.com -o json --until-synced"
	stdout, _ := s.start(both).wait(0)
	if strings.Count(stdout, `"apiVersion":"example.com/v1"`) != 1 ||
		strings.Count(stdout, `"apiVersion":"example.com/v2"`) != 1 {
		t.Errorf("two named versions of a resource must both be watched:\n%s", stdout)
	}
	_, stderr := s.start(both + " --checkpoint " + filepath.Join(t.TempDir(), "positions.db")).wait(1)
	const want = "robots.v1.example.com and robots.v2.example.com are the same objects, " +
		"and a checkpoint keeps only one version"
	if !strings.Contains(stderr, want) {
		t.Errorf("two versions with a checkpoint must be refused:\n%s", stderr)
	}
	stdout, _ = s.start(both + " --follow").wait(0)
	if strings.Count(stdout, `"ADDED"`) != 1 {
		t.Errorf("a followed resource must be watched in one version:\n%s", stdout)
	}
}

func TestAmbiguousNames(t *testing.T) {
	s := newScripted(t, robotType, newType("robots", "factory.io", true))
	for _, flags := range []string{"", " --follow", ",*.example.com"} {
		_, stderr := s.start("watch robots" + flags + " --timeout 10s").wait(1)
		if !strings.Contains(stderr, `ambiguous resource type "robots": must be one of `) {
			t.Errorf("%q: an ambiguous name must be an error, even with --follow:\n%s", flags, stderr)
		}
	}
}

func TestFollowEnds(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	s := newScripted(t, robotType, roverType)
	s.Put(robotType, "default", "a")
	s.Put(robotType, "default", "b")
	s.do("rovers forbid all")
	stdout, _ := s.start("watch * --limit 2 -o name").wait(0)
	if strings.Count(stdout, "\n") != 2 {
		t.Errorf("the run must end after two events:\n%s", stdout)
	}
	began := time.Now()
	if s.start("watch nobody --follow --timeout 1s").wait(0); time.Since(began) < time.Second {
		t.Error("the run ended before --timeout")
	}
	if err := s.Apply("robots list *: hang\nrobots initial *: hang"); err != nil {
		t.Fatal(err)
	}
	_, stderr := s.start("watch * --timeout 2s --until-synced").wait(1)
	if !strings.Contains(stderr, "not synced within --timeout=2s") {
		t.Errorf("an incomplete snapshot must be an error:\n%s", stderr)
	}
	s.do("heal", "discovery down example.com")
	p := s.start("watch robots.example.com --follow")
	p.awaitStderr("robots.example.com: unknown whether it is served: waiting: ") // unavailable is not absent
	p.end()
	_, stderr = s.start("watch robots.example.com").wait(1)
	if !strings.Contains(stderr, `cannot determine whether resource type "robots.example.com" exists`) {
		t.Errorf("without --follow an unavailable API must be an error:\n%s", stderr)
	}
}
