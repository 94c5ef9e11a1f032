package main

import (
	"strings"
	"testing"
)

func TestForbidden(t *testing.T) {
	skipIfShort(t)
	t.Parallel()
	s := newScripted(t, robotType, roverType, namespaceType)
	for _, n := range []string{"one", "two"} {
		s.Put(namespaceType, "", n)
		s.Put(robotType, n, "r-"+n)
	}
	s.do("robots forbid all")
	_, stderr := s.start("watch robots,rovers -A").wait(1)
	if !strings.Contains(stderr, "gvrwatch: cannot watch robots.v1.example.com across the cluster: ") ||
		strings.Count(stderr, "\n") > 2 {
		t.Errorf("without --follow a forbidden type must be an error:\n%s", stderr)
	}
	_, stderr = s.start("watch robots,rovers -A --follow --until-synced").wait(1)
	const refused = "robots.v1.example.com: forbidden across the cluster: robots.example.com is forbidden"
	if !strings.Contains(stderr, refused) || !strings.Contains(stderr, "rovers.v1.example.com: synced") {
		t.Errorf("with --follow a forbidden type must be reported, and the others watched:\n%s", stderr)
	}
	p := s.start("watch robots -n one --follow")
	p.awaitStderr("robots.v1.example.com: forbidden in the namespace one: waiting: robots.example.com is forbidden")
	p.end()

	p = s.start("watch robots -A --follow -o json")
	p.awaitStderr("robots.v1.example.com: forbidden across the cluster: waiting")
	s.do("robots allow all in one")
	p.awaitStderr("robots.v1.example.com: forbidden across the cluster: watching in one\n")
	p.awaitStdout(`"name":"r-one"`)
	s.do("robots allow all in two")
	p.awaitStderr("robots.v1.example.com: forbidden across the cluster: watching in one, two\n")
	p.awaitStdout(`"name":"r-two"`)
	if err := s.Apply("robots watch * in one: 503\nrobots probe * in one: 503"); err != nil {
		t.Fatal(err)
	}
	s.do("robots close watches")
	s.Put(robotType, "two", "r-two", "spec.n=2")
	s.do("compact", "heal")
	p.awaitStdout(`{"type":"GAP","resource":"robots.v1.example.com","namespace":"one","gap":`)
	p.awaitStdout(`{"type":"SYNCED","resource":"robots.v1.example.com"}`)
	s.do("robots forbid all", "robots close watches")
	p.awaitStderr("robots.v1.example.com: forbidden across the cluster: waiting")
	s.do("robots allow")
	p.awaitStderr("robots.v1.example.com: allowed: watching\n")
	stdout, stderr := p.end()
	if strings.Contains(stderr, "can't") {
		t.Errorf("a forbidden type must be reported once, not at each attempt:\n%s", stderr)
	}
	// The last two namespaces may be lost at once.
	if strings.Count(stdout, `"ADDED"`) != 2 || strings.Count(stderr, "forbidden across") > 5 {
		t.Errorf("each object must be ADDED once, and each change must print one line:\n%s%s", stdout, stderr)
	}
}

func TestCandidates(t *testing.T) {
	s := newScripted(t, robotType, namespaceType)
	for _, n := range []string{"one", "two", "three"} {
		s.Put(namespaceType, "", n)
		s.Put(robotType, n, "r-"+n)
	}
	s.do("namespaces forbid all", "robots forbid all", "robots allow all in one", "robots allow all in two")
	p := s.start("watch robots.example.com -A --follow -o name --candidates one,three --until-synced --allow-missing")
	stdout, stderr := p.wait(0)
	if stdout != "robot.example.com/r-one\n" || !strings.Contains(stderr, "watching in one\n") ||
		!strings.Contains(stderr, "synced in the namespace one at") {
		t.Errorf("if namespaces can't be listed, the candidates must be tried:\n%s%s", stdout, stderr)
	}
}
