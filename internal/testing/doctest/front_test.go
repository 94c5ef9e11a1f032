package doctest

import (
	"bufio"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// program returns the Go program in the doc comment of a file.
func program(t *testing.T, file string) string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(read(t, file)) {
		switch {
		case strings.HasPrefix(line, "//\tpackage main"), len(lines) > 0 && strings.HasPrefix(line, "//\t"):
			lines = append(lines, strings.TrimPrefix(line, "//\t"))
		case len(lines) > 0 && line == "//\n":
			lines = append(lines, "\n")
		case len(lines) > 0:
			return strings.Join(lines, "")
		}
	}
	t.Fatalf("%s has no program", file)
	return ""
}

// TestReadmeHasTheFirstProgram: the README shows the program of the front page, which the next test runs.
func TestReadmeHasTheFirstProgram(t *testing.T) {
	code, _, _ := strings.Cut(program(t, filepath.Join(root, "gvrwatch.go")), "\n}\n")
	if !strings.Contains(read(t, filepath.Join(root, "README.md")), "```go\n"+code+"\n}\n```") {
		t.Errorf("the README has another first program than gvrwatch.go:\n%s", code)
	}
}

// TestReadmeHasWholePrograms: the README shows two of the programs in examples, which their own test runs, and whole.
func TestReadmeHasWholePrograms(t *testing.T) {
	readme := read(t, filepath.Join(root, "README.md"))
	for _, name := range []string{"checkpoint", "follow"} {
		_, code, _ := strings.Cut(read(t, filepath.Join(root, "examples", name, "main.go")), "\n")
		if !strings.Contains(readme, "```go\n"+code+"```") {
			t.Errorf("the README has another program than examples/%s:\n%s", name, code)
		}
		if n := strings.Count(code, "\n"); n > 30 {
			t.Errorf("examples/%s: the program has %d lines, 30 at most", name, n)
		}
	}
}

// TestFirstProgramRuns: the program of the module's front page prints what exists in the cluster of $KUBECONFIG, and
// what changes.
func TestFirstProgramRuns(t *testing.T) {
	deployments := gvr.Resource{
		Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"}, Verbs: []string{"list", "watch"},
	}
	deployments.Group, deployments.Version, deployments.Resource = "apps", "v1", "deployments"
	srv := streamtest.NewServer(deployments)
	defer srv.Close()
	srv.Put(deployments, "default", "web")
	network := httptest.NewServer(srv)
	defer network.Close()

	dir := t.TempDir()
	config, source, binary := filepath.Join(dir, "config"), filepath.Join(dir, "main.go"), filepath.Join(dir, "first")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(config, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "here",
		"contexts": [{"name": "here", "context": {"cluster": "here"}}],
		"clusters": [{"name": "here", "cluster": {"server": %q}}]}`, network.URL))
	write(source, program(t, filepath.Join(root, "gvrwatch.go")))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	limit, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	first := exec.CommandContext(limit, binary)
	first.Env = append(os.Environ(), "KUBECONFIG="+config)
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		got = append(got, lines.Text())
		switch kind, _, _ := strings.Cut(lines.Text(), " "); kind {
		case "SYNCED":
			if _, err := srv.Delete(deployments, "default", "web"); err != nil {
				t.Error(err)
			}
		case "DELETED":
			if err := first.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
	}
	if err := first.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	want := []string{"ADDED default/web@2", "SYNCED @2", "DELETED default/web@3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the program prints (-want +got):\n%s", diff)
	}
}
