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
	if !strings.Contains(stderr, "gvrwatch: cannot watch robots.v1.example.com across the cluster: ") || strings.Count(stderr, "\n") > 2 {
		t.Errorf("without --follow it is an error:\n%s", stderr)
	}
	_, stderr = s.start("watch robots,rovers -A --follow --until-synced").wait(0)
	if !strings.Contains(stderr, "robots.v1.example.com: forbidden across the cluster: waiting: robots.example.com is forbidden") || !strings.Contains(stderr, "rovers.v1.example.com: synced") {
		t.Errorf("with --follow it is said, and the others are told:\n%s", stderr)
	}
	l := s.start("watch robots -n one --follow")
	l.awaitStderr("robots.v1.example.com: forbidden in the namespace one: waiting: robots.example.com is forbidden")
	l.end()

	l = s.start("watch robots -A --follow -o json")
	l.awaitStderr("robots.v1.example.com: forbidden across the cluster: waiting")
	s.do("robots allow all in one")
	l.awaitStderr("robots.v1.example.com: forbidden across the cluster: watching in one\n")
	l.awaitStdout(`"name":"r-one"`)
	s.do("robots allow all in two")
	l.awaitStderr("robots.v1.example.com: forbidden across the cluster: watching in one, two\n")
	l.awaitStdout(`"name":"r-two"`)
	if err := s.Apply("robots watch * in one: 503\nrobots probe * in one: 503"); err != nil {
		t.Fatal(err)
	}
	s.do("robots close watches")
	s.Put(robotType, "two", "r-two", "spec.n=2")
	s.do("compact", "heal")
	l.awaitStdout(`{"type":"GAP","resource":"robots.v1.example.com","namespace":"one","gap":`)
	l.awaitStdout(`{"type":"SYNCED","resource":"robots.v1.example.com"}`)
	s.do("robots forbid all", "robots close watches")
	l.awaitStderr("robots.v1.example.com: forbidden across the cluster: waiting")
	s.do("robots allow")
	l.awaitStderr("robots.v1.example.com: allowed: watching\n")
	stdout, stderr := l.end()
	if strings.Contains(stderr, "can't") {
		t.Errorf("what is forbidden is said once, not by each attempt too:\n%s", stderr)
	}
	if strings.Count(stdout, `"ADDED"`) != 2 || strings.Count(stderr, "forbidden across") > 5 { // the last two may be lost at once
		t.Errorf("each object once, each change one line:\n%s%s", stdout, stderr)
	}
}

func TestCandidates(t *testing.T) {
	s := newScripted(t, robotType, namespaceType)
	for _, n := range []string{"one", "two", "three"} {
		s.Put(namespaceType, "", n)
		s.Put(robotType, n, "r-"+n)
	}
	s.do("namespaces forbid all", "robots forbid all", "robots allow all in one", "robots allow all in two")
	l := s.start("watch robots.example.com -A --follow -o name --candidates one,three --until-synced")
	stdout, stderr := l.wait(0)
	if stdout != "robot.example.com/r-one\n" || !strings.Contains(stderr, "watching in one\n") || !strings.Contains(stderr, "synced in the namespace one at") {
		t.Errorf("where one may neither list namespaces nor watch everything, those that are named are tried:\n%s%s", stdout, stderr)
	}
}
