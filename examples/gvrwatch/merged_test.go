package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// slowOutput is a stdout whose Write blocks until the test sends to or closes proceed.
type slowOutput struct {
	*searchedOutput
	proceed chan struct{}
}

func (s slowOutput) Write(b []byte) (int, error) {
	n, err := s.searchedOutput.Write(b)
	<-s.proceed
	return n, err
}

// count returns the number of lines, and of the events that they stand for.
func (s slowOutput) count(t *testing.T) (lines, events int) {
	t.Helper()
	for line := range strings.Lines(s.String()) {
		var ev struct{ Coalesced int }
		if err := json.Unmarshal([]byte(line), &ev); err != nil {
			t.Fatal(err)
		}
		lines, events = lines+1, events+1+ev.Coalesced
	}
	return lines, events
}

func TestLatest(t *testing.T) {
	for _, flags := range []string{"--latest", "--latest --follow", ""} {
		s := newScripted(t, robotType)
		s.Put(robotType, "default", "a", "spec.n=0")
		out := slowOutput{newSearchedOutput(), make(chan struct{})}
		p := startTo(t, out, strings.Fields("watch robots -o json --server "+s.url+" "+flags)...)
		if !out.await("\n") {
			t.Fatal("nothing was written")
		}
		changes, few := 0, false
		for turn := 0; !few && (flags != "" || turn < 20) && turn < 10_000; turn++ {
			for range 10 {
				changes++
				s.Put(robotType, "default", "a", fmt.Sprint("spec.n=", changes))
			}
			out.proceed <- struct{}{}
			if !out.await("\n") {
				t.Fatal("nothing more was written")
			}
			lines, events := out.count(t)
			few = lines < events
		}
		s.Put(robotType, "default", "z")
		close(out.proceed)
		if !out.await(`"name":"z"`) {
			t.Error("the newest object was never printed")
		}
		p.signal()
		<-p.status
		lines, events := out.count(t)
		if want := 1 + 1 + changes + 1; events != want || few != (flags != "") || (lines == events) != (flags == "") {
			t.Errorf("%q: %d lines stand for %d of %d events; want all events, on fewer lines only with --latest",
				flags, lines, events, want)
		}
	}
}

var numbers = regexp.MustCompile(`"(resourceVersion|from|to)":"[0-9]+"`)

// TestControlEvents checks the control events around a gap in JSON.
func TestControlEvents(t *testing.T) {
	t.Parallel()
	s := newScripted(t, robotType)
	s.Put(robotType, "default", "a")
	for _, how := range []string{"", " --follow"} {
		p := s.start("watch robots -o json" + how)
		p.awaitStdout(`"SYNCED"`)
		if err := s.Apply("robots watch *: 503\nrobots probe *: 503"); err != nil {
			t.Fatal(err)
		}
		s.do("robots close watches")
		s.Put(robotType, "default", "b")
		if _, err := s.Delete(robotType, "default", "b"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Delete(robotType, "default", "a"); err != nil {
			t.Fatal(err)
		}
		s.do("compact", "heal")
		p.awaitStdout(`"SYNCED"`)
		stdout, _ := p.end()
		var got []string
		for line := range strings.Lines(stdout) {
			got = append(got, strings.TrimSpace(numbers.ReplaceAllString(line, `"$1":"N"`)))
		}
		want := []string{
			got[0], // ADDED, with the server's object
			`{"type":"SYNCED","resource":"robots.v1.example.com","resourceVersion":"N"}`,
			`{"type":"GAP","resource":"robots.v1.example.com",` +
				`"gap":{"reason":"expired","from":"N","to":"N","historyLost":false}}`,
			got[min(3, len(got)-1)], // DELETED
			`{"type":"SYNCED","resource":"robots.v1.example.com","resourceVersion":"N"}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", how, diff)
		} else if !strings.HasPrefix(got[3],
			`{"type":"DELETED","resource":"robots.v1.example.com","inferred":true,"object":`) {
			t.Errorf("a DELETED that a list revealed must be inferred: %s", got[3])
		}
		s.Put(robotType, "default", "a")
	}
}
