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

// TestFollowTypesThatComeAndGo is on the real API server.
func TestFollowTypesThatComeAndGo(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	client := dynamic.NewForConfigOrDie(srv.Config())
	rafts := devserver.CRD{Group: "follow.example.com", Kind: "Raft", Namespaced: true}
	crds := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	create := func(name string) {
		t.Helper()
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetAPIVersion("follow.example.com/v1")
		u.SetKind(rafts.Kind)
		u.SetName(name)
		if _, err := client.Resource(rafts.Resource()).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	byName := start(t, "watch", "rafts.follow.example.com,boats", "-A", "--follow", "-o", "name")
	byPattern := start(t, "watch", "*.follow.example.com", "-o", "json")
	both := []*program{byName, byPattern}
	byName.awaitStderr("rafts.follow.example.com: not served yet: waiting\n")
	byName.awaitStdout("boat.cli.example.com/bounty\n")
	byPattern.awaitStderr("*.follow.example.com: nothing that is served matches: waiting\n")
	for _, turn := range []string{"served now", "served again"} {
		if err := devserver.CreateCRDs(t.Context(), client, rafts); err != nil {
			t.Fatal(err)
		}
		create("kon-tiki")
		for _, l := range both {
			l.awaitStderr("rafts.v1.follow.example.com: " + turn + ": watching\n")
		}
		byName.awaitStdout("raft.follow.example.com/kon-tiki\n")
		byPattern.awaitStdout(`"name":"kon-tiki"`)
		if err := crds.Delete(t.Context(), "rafts.follow.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		byName.awaitStdout("raft.follow.example.com/kon-tiki deleted\n")
		byPattern.awaitStdout(`{"type":"DELETED"`)
		for _, l := range both {
			l.awaitStderr("rafts.v1.follow.example.com: gone: waiting\n")
		}
	}
	for _, l := range both {
		_, stderr := l.end()
		if strings.Contains(stderr, "could not find") || strings.Count(stderr, "gone") != 2 {
			t.Errorf("each change is one line:\n%s", stderr)
		}
	}
}

func TestFollowCheckpoint(t *testing.T) {
	s := newScripted(t, robotType, roverType, planetType)
	path := filepath.Join(t.TempDir(), "positions.db")
	watch := func(why string, more string, want ...string) {
		t.Helper()
		l := s.start("watch *.example.com,planets -o name --checkpoint " + path + " " + more)
		stdout, stderr := l.wait(0)
		got := strings.Fields(strings.ReplaceAll(stdout, " deleted", ":deleted"))
		slices.Sort(got)
		if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s%s", why, diff, stderr)
		}
	}
	s.Put(robotType, "default", "a")
	s.Put(roverType, "default", "b")
	s.Put(planetType, "", "mars")
	watch("everything", "--until-synced", "planet.space.io/mars", "robot.example.com/a", "rover.example.com/b")
	watch("nothing has happened", "--until-synced")
	s.Put(robotType, "default", "c")
	if _, err := s.Delete(roverType, "default", "b"); err != nil {
		t.Fatal(err)
	}
	watch("what has happened", "--limit 2", "robot.example.com/c", "rover.example.com/b:deleted")
	s.Put(planetType, "", "venus")
	if _, err := s.Delete(robotType, "default", "a"); err != nil {
		t.Fatal(err)
	}
	watch("what is different", "--until-synced", "planet.space.io/venus", "robot.example.com/a:deleted")
	_, stdout, _ := gvrwatch(t, "checkpoint", "show", path, "-o", "name")
	if diff := cmp.Diff("planets.space.io\nrobots.example.com\nrovers.example.com\n", stdout); diff != "" {
		t.Errorf("each type has its own (-want +got):\n%s", diff)
	}
}

func TestTwoVersions(t *testing.T) {
	v2 := robotType
	v2.GroupVersionResource.Version = "v2"
	s := newScripted(t, robotType, v2)
	s.Put(robotType, "default", "a")
	const both = "watch robots.v1.example.com,robots.v2.example.com -o json --until-synced"
	stdout, _ := s.start(both).wait(0)
	if strings.Count(stdout, `"apiVersion":"example.com/v1"`) != 1 || strings.Count(stdout, `"apiVersion":"example.com/v2"`) != 1 {
		t.Errorf("who asks for two versions gets them:\n%s", stdout)
	}
	_, stderr := s.start(both + " --checkpoint " + filepath.Join(t.TempDir(), "positions.db")).wait(1)
	if !strings.Contains(stderr, "robots.v1.example.com and robots.v2.example.com are the same objects, and a checkpoint keeps them in one version") {
		t.Errorf("but a checkpoint has one:\n%s", stderr)
	}
	stdout, _ = s.start(both + " --follow").wait(0)
	if strings.Count(stdout, `"ADDED"`) != 1 {
		t.Errorf("what is followed is one thing, in whatever version:\n%s", stdout)
	}
}

func TestAmbiguousNames(t *testing.T) {
	s := newScripted(t, robotType, newType("robots", "factory.io", true))
	for _, flags := range []string{"", " --follow", ",*.example.com"} {
		_, stderr := s.start("watch robots" + flags + " --timeout 10s").wait(1)
		if !strings.Contains(stderr, `ambiguous resource type "robots": must be one of `) {
			t.Errorf("%q: that will not go away by waiting:\n%s", flags, stderr)
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
		t.Errorf("--limit:\n%s", stdout)
	}
	began := time.Now()
	if s.start("watch nobody --follow --timeout 1s").wait(0); time.Since(began) < time.Second {
		t.Error("--timeout: it ends too early")
	}
	if err := s.Apply("robots list *: hang\nrobots initial *: hang"); err != nil {
		t.Fatal(err)
	}
	_, stderr := s.start("watch * --timeout 2s --until-synced").wait(1)
	if !strings.Contains(stderr, "not synced within --timeout=2s") {
		t.Errorf("a part is not the whole:\n%s", stderr)
	}
	s.do("heal", "discovery down example.com")
	l := s.start("watch robots.example.com --follow")
	l.awaitStderr("robots.example.com: not known whether it is served: waiting: ") // unknown is not absent
	l.end()
	_, stderr = s.start("watch robots.example.com").wait(1)
	if !strings.Contains(stderr, `cannot determine whether resource type "robots.example.com" exists`) {
		t.Errorf("without --follow it is an error:\n%s", stderr)
	}
}
