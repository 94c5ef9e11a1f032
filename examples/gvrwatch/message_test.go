package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/execute"
	"github.com/gvrwatch/gvrwatch/examples/gvrwatch/internal/screen"
	"github.com/gvrwatch/gvrwatch/stream"
)

// TestMessagesAreCut: a server chooses how long a resourceVersion is, and everything else.
func TestMessagesAreCut(t *testing.T) {
	long := strings.Repeat("9", 1<<20)
	synced, gap := event(stream.Synced), event(stream.Gap)
	synced.ResourceVersion, gap.Gap.From, gap.Gap.To = long, long, long
	cut := strings.Repeat("9", 1<<10) + "..."
	for _, tt := range []struct {
		ev        stream.Event
		want, why string
	}{
		{synced, "synced at resourceVersion " + cut, "the end"},
		{gap, "gap from resourceVersion " + cut + " to " + cut + " (expired): the differences follow", "the middle"},
	} {
		var stderr bytes.Buffer
		if err := newPrinter(t, &bytes.Buffer{}, &stderr, "name", false).print(tt.ev, ack); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("gvrwatch: boats.v1.example.com: "+tt.want+"\n", stderr.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.why, diff)
		}
	}
	for _, word := range []string{"many words ", strings.Repeat("\x01", 100) + " ", "\U000e0001 "} {
		var stderr bytes.Buffer
		printMessage(screen.New(io.Discard, &stderr, nil).ErrOut, "%s", strings.Repeat(word, 1<<20))
		if stderr.Len() > 17<<10 {
			t.Errorf("a message of many %q has %d bytes", word, stderr.Len())
		}
	}
	var stderr bytes.Buffer
	printMessage(screen.New(io.Discard, &stderr, nil).ErrOut, "%s", strings.Repeat("\x01", 1<<20))
	if stderr.Len() > 1100 {
		t.Errorf("a word has %d bytes", stderr.Len())
	}
}

// TestExecWithoutVariable: an object that no environment can name is an error of its event, not of the run.
func TestExecWithoutVariable(t *testing.T) {
	for _, tt := range []struct {
		name, why string
		runs      bool
	}{
		{"a", "a usual name", true},
		{"a\x00b", "a NUL byte", false},
		{strings.Repeat("a", 1<<20), "more than systems have room for", false},
	} {
		var stderr bytes.Buffer
		ran, acked := false, false
		p := commandPrinter{
			printing{streams: genericiooptions.IOStreams{Out: &bytes.Buffer{}, ErrOut: &stderr}},
			func(execute.Event) error { ran = true; return nil },
		}
		ev := event(stream.Added)
		ev.Object.SetName(tt.name)
		if err := p.print(ev, func() { acked = true }); err != nil {
			t.Errorf("%s: %v", tt.why, err)
		}
		said := strings.Contains(stderr.String(), "no command is run for the ADDED event")
		if ran != tt.runs || acked == tt.runs || said == tt.runs {
			t.Errorf("%s: ran: %v, acked: %v, stderr: %.200q", tt.why, ran, acked, &stderr)
		}
	}
}

// TestExecGoesOn: the run goes on with the objects after the one that has no name for a command.
func TestExecGoesOn(t *testing.T) {
	s := newScripted(t, robotType)
	for _, name := range []string{"a", "b\x00b", "c"} {
		s.Put(robotType, "default", name)
	}
	status, stdout, stderr := runTool(t, "watch", "robots", "--server", s.url, "--until-synced",
		"--exec", "echo $GVRWATCH_NAME", "--exec-workers", "1", "--exec-retries", "1")
	if status != 0 || stdout != "a\nc\n" || strings.Count(stderr, "no command is run for") != 1 {
		t.Errorf("status %d\n%s%s", status, stdout, stderr)
	}
}

// TestJoinNames: servers choose how many names there are, and how long.
func TestJoinNames(t *testing.T) {
	names := append([]string{strings.Repeat("a", 1<<20)}, strings.Split(strings.Repeat("b ", 10), " ")...)
	want := strings.Repeat("a", 381) + "..." + strings.Repeat(", b", 9) + " and 2 more"
	if diff := cmp.Diff(want, joinNames(names)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
