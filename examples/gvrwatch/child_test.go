package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// parents are the programs in docs/migrating.md that run the tool as a child.
var parents = []struct{ interpreter, language, file string }{
	{"python3", "python", "watch.py"},
	{"node", "js", "watch.mjs"},
}

// parentOf returns the program of a language, and skips the test without an interpreter.
func parentOf(t *testing.T, interpreter, language string) string {
	t.Helper()
	if _, err := exec.LookPath(interpreter); err != nil {
		t.Skip("not installed: ", interpreter)
	}
	document, err := os.ReadFile("../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```" + language + "\n((?:[^`]|`[^`])*?gvrwatch.*?)```")
	found := block.FindSubmatch(document)
	if found == nil {
		t.Fatalf("docs/migrating.md has no program in %s", language)
	}
	return string(found[1])
}

// shim is a gvrwatch that runs this test's binary as the tool.
const shim = `#!/bin/sh
args=
for a in "$@"; do args="$args,\"$a\""; done
%s="[${args#,}]" GORACE=atexit_sleep_ms=0 exec %q
`

const kubeconfigOf = `{"apiVersion": "v1", "kind": "Config", "current-context": "here",
	"contexts": [{"name": "here", "context": {"cluster": "here"}}],
	"clusters": [{"name": "here", "cluster": {"server": %q}}]}`

// TestDocumentedParents: the programs print what happens, end with the tool, and continue where they have ended.
func TestDocumentedParents(t *testing.T) {
	podType := newType("pods", "", true)
	for _, p := range parents {
		t.Run(p.language, func(t *testing.T) {
			source := parentOf(t, p.interpreter, p.language)
			s := newScripted(t, podType)
			s.Put(podType, "shop", "web")
			dir := t.TempDir()
			for name, text := range map[string]string{
				p.file: source, "gvrwatch": fmt.Sprintf(shim, argsVariable, os.Args[0]),
				"config": fmt.Sprintf(kubeconfigOf, s.url),
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			// run starts the program, calls each with each line, and returns all lines and the exit status.
			run := func(each func(line string, program *os.Process)) (lines []string, status int) {
				t.Helper()
				program := exec.CommandContext(t.Context(), p.interpreter, p.file)
				program.Dir, program.Stderr = dir, os.Stderr
				program.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "config"),
					"PATH="+dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
				out, err := program.StdoutPipe()
				if err == nil {
					err = program.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				limit := time.AfterFunc(time.Minute, func() { _ = program.Process.Kill() })
				defer limit.Stop()
				for scanner := bufio.NewScanner(out); scanner.Scan(); {
					lines = append(lines, scanner.Text())
					each(scanner.Text(), program.Process)
				}
				_ = program.Wait()
				return lines, program.ProcessState.ExitCode()
			}

			got, status := run(func(line string, program *os.Process) {
				if line == "everything that exists has been printed" {
					_ = program.Signal(syscall.SIGTERM)
				}
			})
			want := []string{"ADDED shop/web", "everything that exists has been printed"}
			if diff := cmp.Diff(want, got); diff != "" || status != 0 {
				t.Errorf("first run: status %d (-want +got):\n%s", status, diff)
			}
			if _, err := s.Delete(podType, "shop", "web"); err != nil {
				t.Fatal(err)
			}
			s.Compact("") // the deletion is no longer in the server's history
			got, status = run(func(line string, program *os.Process) {
				if line == "DELETED shop/web" {
					_ = program.Signal(syscall.SIGINT)
				}
			})
			if len(got) == 0 || got[0] != "DELETED shop/web" || status != 0 { // before what SYNCED leads to
				t.Errorf("second run: status %d, %q", status, got)
			}
			s.Unserve(podType)
			if got, status = run(func(string, *os.Process) {}); len(got) > 0 || status != 1 {
				t.Errorf("a tool that fails: status %d, want 1, %q", status, got)
			}
		})
	}
}
