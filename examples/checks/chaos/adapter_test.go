package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// write writes a shell script, and returns the client that it is.
func writeProgram(t *testing.T, name, text string) *program {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	p, err := newProgram(path)
	if err != nil {
		t.Fatal(err)
	}
	p.lines = newLineReader(newDefinitions().resources())
	return p
}

// runProgram runs a program once, until it has written what a test waits for or has ended.
func runProgram(t *testing.T, p *program, enough func(*recording) bool) *recording {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	w, rec := &world{}, newRecording()
	w.processes.pids = map[int]bool{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error)
	go func() { done <- p.runOnce(ctx, w, rec, dir, append(os.Environ(), "JUDGE_DIR="+dir)) }()
	for tick := time.Tick(5 * time.Millisecond); ; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			if n := w.processes.signal(0); n > 0 {
				t.Errorf("%d processes are still registered", n)
			}
			return rec
		case <-tick:
			if enough != nil && enough(rec) {
				cancel()
				enough = nil
			}
		}
	}
}

func hasKind(kind Kind) func(*recording) bool {
	return func(rec *recording) bool {
		return slices.ContainsFunc(rec.all(), func(r report) bool { return r.Kind == kind })
	}
}

func TestProgram(t *testing.T) {
	p := writeProgram(t, "loop.sh", `
echo '{"type":"CLIENT","name":"a loop","version":"1.2","strict":true,"resources":["widgets.chaos.example.com"]}'
pwd >&2
echo '{"type":"ADDED","resource":"widgets.chaos.example.com","namespace":"a","uid":"u","resourceVersion":"5"}'
echo 'no line of ours'
echo '{"type":"SYNCED","resourceVersion":"5"}'
printf '{"type":"DELETED","resource":"widgets.chaos.example.com","namespace":"a","uid":"u","resourceVersion":"7"}'
`)
	if got := p.subject().Name; got != "loop" {
		t.Errorf("before its CLIENT it is called %q", got)
	}
	rec := runProgram(t, p, nil)
	var got []string
	for _, r := range rec.all() {
		if time.Since(r.At) > time.Minute || r.Run != 1 || !r.Acked || r.Resource != widgets {
			t.Errorf("%+v", r)
		}
		got = append(got, string(r.Kind)+"@"+r.ResourceVersion)
	}
	if diff := cmp.Diff([]string{"ADDED@5", "SYNCED@5", "DELETED@7"}, got); diff != "" {
		t.Error(diff)
	}
	want := subject{Name: "a loop", Ours: true, Scope: scope{Resources: []string{widgets}}}
	if diff := cmp.Diff(want, p.subject(), cmp.AllowUnexported(subject{})); diff != "" {
		t.Error(diff)
	}
	counted := programCounts{
		Version: "1.2", Processes: 1, Unreadable: 1, Problem: p.lines.problem, Exits: 1, LastExit: "exit status 0",
	}
	if diff := cmp.Diff(counted, p.counts()); diff != "" {
		t.Error(diff)
	}
	if !p.begun() {
		t.Error("all that it watches is SYNCED, and the faults may not begin")
	}
	if len(rec.errors) != 2 || !strings.HasSuffix(rec.errors[0], "/home") ||
		!strings.HasSuffix(rec.errors[1], "the process ended: exit status 0") {
		t.Errorf("the notes are %q", rec.errors)
	}
}

// TestReadiness: what is not SYNCED when the faults begin counts as that.
func TestReadiness(t *testing.T) {
	for _, test := range []struct {
		why, lines string
		begun      bool
		added      int // SYNCED
	}{
		{"nothing yet", "", false, 5},
		{"one of five", `{"type":"SYNCED","resource":"widgets.chaos.example.com"}`, false, 4},
		{"all of them", `{"type":"SYNCED"}`, true, 0},
		{"ready without SYNCED", `{"type":"READY"}`, true, 5},
	} {
		t.Run(test.why, func(t *testing.T) {
			p := writeProgram(t, "x", "")
			if _, err := p.lines.read([]byte(test.lines), time.Now()); err != nil {
				t.Fatal(err)
			}
			if got := p.begun(); got != test.begun {
				t.Errorf("the faults may begin: %v", got)
			}
			rec := newRecording()
			p.begin(rec)
			if got := rec.count(); got != test.added {
				t.Errorf("%d reports: %v", got, rec.all())
			}
		})
	}
}

// TestProgramEnds: a program that handles SIGTERM has time for that, one that ignores it has not, and what either has
// started ends with it.
func TestProgramEnds(t *testing.T) {
	const ready = `{"type":"GAP","resource":"widgets.chaos.example.com"}`
	for _, test := range []struct{ why, text, last string }{
		{"it ends at SIGTERM", `
trap 'echo "{\"type\":\"SYNCED\"}"; exit' TERM
echo '` + ready + `'
while :; do sleep 0.1; done`, "SYNCED"},
		{"it ignores SIGTERM", `
trap '' TERM
echo '` + ready + `'
while :; do sleep 0.1; done`, "GAP"},
		{"it has ended, and its child has not", `
sleep 1000 &
echo '` + ready + `'`, "GAP"},
		{"its child has left the process group, and can write", `
setsid sh -c 'echo "$0"; exec sleep 10' '` + ready + `' &
exec sleep 1000`, "GAP"},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			rec := runProgram(t, writeProgram(t, "x", test.text), hasKind(gap))
			all := rec.all()
			if got := string(all[len(all)-1].Kind); got != test.last {
				t.Errorf("its last line is %s, want %s", got, test.last)
			}
			if d := time.Since(began); d > 8*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// TestSlowProgramStarts: a program that resumes is not killed before it had time to begin.
func TestSlowProgramStarts(t *testing.T) {
	t.Parallel()
	p := writeProgram(t, "x", `
echo '{"type":"CLIENT","resumes":true}'
sleep 6
echo '{"type":"GAP","resource":"widgets.chaos.example.com"}'
exec sleep 1000`)
	rec := runProgram(t, p, nil)
	if !hasKind(gap)(rec) {
		t.Errorf("it was killed before it had begun: %q", rec.errors)
	}
}

// TestResumingProgramIsKilled: and each process of it begins a run.
func TestResumingProgramIsKilled(t *testing.T) {
	t.Parallel()
	p := writeProgram(t, "x", `
trap '' TERM
echo '{"type":"CLIENT","resumes":true}'
exec sleep 1000`)
	began := time.Now()
	rec := runProgram(t, p, nil) // it would run for 20 s
	if d := time.Since(began); d > 18*time.Second || !p.subject().Checkpoint {
		t.Errorf("it ran for %v", d)
	}
	if p.exits != 0 || len(rec.errors) != 0 {
		t.Errorf("it ended %d times by itself: %q", p.exits, rec.errors)
	}
}

func TestMemoryOfPrograms(t *testing.T) {
	p := writeProgram(t, "x", `sleep 1000 & echo '{"type":"CLIENT"}'; sleep 1000`)
	runProgram(t, p, func(*recording) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.memory > 0
	})
	if p.memory < 100<<10 || p.memory > 100<<20 {
		t.Errorf("three processes of a shell have %d bytes", p.memory)
	}
}

func TestProgramsInFolder(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"b": 0o700, "a.sh": 0o755, ".hidden": 0o700, "notes.txt": 0o600} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b", filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	all, err := selectClients([]string{"stream"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range all {
		got = append(got, c.subject().Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "stream"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestClientsThatAreNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		why, names, folder, want string
	}{
		{"no such name", "steam", "", `invalid client "steam": must be the path of a program, all, or one of`},
		{"no such path", "./steam", "", "no such file"},
		{"not executable", file, "", "must be an executable file"},
		{"a folder", filepath.Dir(file), "", "must be an executable file"},
		{"nothing in the folder", "", filepath.Dir(file), "must have executable files"},
		{"no folder", "", file + "/x", "not a directory"},
		{"the same client twice", "stream,stream", "", "stream is there twice"},
	} {
		t.Run(test.why, func(t *testing.T) {
			_, err := selectClients(split(test.names), test.folder)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}

func TestEachLine(t *testing.T) {
	var got []int
	text := append(bytes.Repeat([]byte("x"), maxLine+10), "\n\n \nab\r\ncd"...)
	eachLine(bytes.NewReader(text), func(line []byte) { got = append(got, len(line)) })
	if diff := cmp.Diff([]int{maxLine, 2, 2}, got); diff != "" {
		t.Error(diff)
	}
}
