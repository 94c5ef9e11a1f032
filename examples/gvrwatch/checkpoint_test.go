package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

// argsVariable makes the test binary the program, so that it can be killed.
const argsVariable = "GVRWATCH_TEST_ARGS"

// newBoats returns a client for boats in a namespace that no other test watches.
func newBoats(t *testing.T, namespace string) dynamic.ResourceInterface {
	t.Helper()
	return dynamic.NewForConfigOrDie(srv.Config()).Resource(boats.Resource()).Namespace(namespace)
}

func launch(t *testing.T, c dynamic.ResourceInterface, name string) {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	u.SetAPIVersion(boats.Resource().GroupVersion().String())
	u.SetKind(boats.Kind)
	u.SetName(name)
	if _, err := c.Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func sink(t *testing.T, c dynamic.ResourceInterface, name string) {
	t.Helper()
	if err := c.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestWatchCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions.db")
	c := newBoats(t, "dock")
	watch := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := gvrwatch(t, append([]string{"watch", "boats", "-n", "dock", "-o", "name", "--checkpoint", path}, args...)...)
		if status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		return stdout
	}
	launch(t, c, "nina")
	launch(t, c, "pinta")
	if diff := cmp.Diff("boat.cli.example.com/nina\nboat.cli.example.com/pinta\n", watch("--until-synced")); diff != "" {
		t.Errorf("the first run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("", watch("--until-synced")); diff != "" {
		t.Errorf("nothing has happened (-want +got):\n%s", diff)
	}
	sink(t, c, "nina")
	launch(t, c, "santa-maria")
	if diff := cmp.Diff("boat.cli.example.com/nina deleted\nboat.cli.example.com/santa-maria\n", watch("--limit", "2")); diff != "" {
		t.Errorf("what has happened (-want +got):\n%s", diff)
	}
	sink(t, c, "pinta")
	launch(t, c, "nina")
	sink(t, c, "nina")
	if diff := cmp.Diff("boat.cli.example.com/pinta deleted\n", watch("--until-synced")); diff != "" {
		t.Errorf("what is different, not what has happened (-want +got):\n%s", diff)
	}
	if err := c.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestCheckpointMistakes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "positions.db")
	if status, _, stderr := gvrwatch(t, "watch", "boats", "-A", "--until-synced", "--checkpoint", path); status != 0 {
		t.Fatal(stderr)
	}
	locked := filepath.Join(dir, "locked.db")
	s, err := file.Open(locked)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tests := []struct {
		args   []string
		status int
		want   string
		why    string
	}{
		{[]string{"watch", "boats", "-n", "harbour", "--checkpoint", path}, 1, `checkpoint "boats.cli.example.com" is for namespaces (none), not "harbour"`, "another namespace"},
		{[]string{"watch", "boats", "-A", "-l", "a=b", "--checkpoint", path}, 1, `is for label selector (none), not "a=b"`, "another selector"},
		{[]string{"watch", "boats", "--checkpoint", dir}, 1, "must be a regular file", ""},
		{[]string{"watch", "boats", "--checkpoint", locked}, 1, fmt.Sprintf("is in use by process %d", os.Getpid()), "another process, or this one"},
		{[]string{"checkpoint", "show", locked}, 1, "is in use by process", ""},
		{[]string{"checkpoint", "show", filepath.Join(dir, "none")}, 1, "there is no file", "to show is not to make"},
		{[]string{"checkpoint", "reset", path, "pods"}, 1, `has no checkpoint "pods", only: boats.cli.example.com`, "no such key"},
		{[]string{"watch", "boats", "--checkpoint", ""}, 2, "--checkpoint: it must name a file", "a variable that is not set"},
		{[]string{"checkpoint", "show"}, 2, "accepts between 1 and 2 arg(s)", ""},
		{[]string{"checkpoint", "show", path, "-o", "csv"}, 2, "--output=csv: it must be one of", ""},
		{[]string{"checkpoint", "forget", path}, 2, `unknown command "forget"`, ""},
	}
	for _, tt := range tests {
		status, stdout, stderr := gvrwatch(t, tt.args...)
		if status != tt.status || !strings.Contains(stderr, tt.want) || stdout != "" {
			t.Errorf("%q %s: status %d, want %d; stdout %q, stderr %q, want %q", tt.args, tt.why, status, tt.status, stdout, stderr, tt.want)
		}
	}
}

func TestCheckpointShowAndReset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions.db")
	if status, _, stderr := gvrwatch(t, "watch", "boats,oceans", "-A", "--until-synced", "--checkpoint", path); status != 0 {
		t.Fatal(stderr)
	}
	show := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := gvrwatch(t, append([]string{"checkpoint", "show", path}, args...)...)
		if status != 0 {
			t.Fatalf("%q: status %d: %s", args, status, stderr)
		}
		return stdout
	}
	row := regexp.MustCompile(`(?m)^oceans.cli.example.com +<all> +[0-9]+ +1 +[0-9]+s ago$`)
	if got := show(); !row.MatchString(got) || strings.Count(got, "\n") != 3 {
		t.Errorf("it shows\n%s", got)
	}
	var document checkpointDocument
	if err := json.Unmarshal([]byte(show("oceans.cli.example.com", "-o", "json")), &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Objects) != 1 || document.Objects[0].Name != "pacific" || document.ResourceVersions[""] == "" || document.Identity.Cluster.Address == "" {
		t.Errorf("the document is %+v", document)
	}
	if got := show("-o", "yaml"); strings.Count(got, "---\n") != 1 || !strings.Contains(got, "name: pacific\n") {
		t.Errorf("YAML:\n%s", got)
	}
	if _, stdout, _ := gvrwatch(t, "checkpoint", "reset", path, "oceans.cli.example.com"); stdout != "oceans.cli.example.com reset\n" {
		t.Errorf("reset one: %q", stdout)
	}
	if got := show("-o", "name"); got != "boats.cli.example.com\n" {
		t.Errorf("what is left: %q", got)
	}
	if _, stdout, _ := gvrwatch(t, "checkpoint", "reset", path); stdout != "boats.cli.example.com reset\n" {
		t.Errorf("reset all: %q", stdout)
	}
	if got := show(); got != "" {
		t.Errorf("after that: %q", got)
	}
}

// TestWatchKilled kills the program after each line, and starts it again.
func TestWatchKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions.db")
	c := newBoats(t, "sea")
	told := map[string]int{}
	for i := range 6 {
		launch(t, c, fmt.Sprint("boat-", i))
		if i > 0 {
			sink(t, c, fmt.Sprint("boat-", i-1))
		}
		args, err := json.Marshal([]string{"watch", "boats", "-n", "sea", "-o", "name", "--checkpoint", path})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), argsVariable+"="+string(args))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for last := fmt.Sprintf("boat.cli.example.com/boat-%d", i); lines.Scan(); {
			told[lines.Text()]++
			if lines.Text() == last || i > 0 && lines.Text() == fmt.Sprintf("boat.cli.example.com/boat-%d deleted", i-1) && told[last] > 0 {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it had said before
			told[lines.Text()]++
		}
		_ = cmd.Wait()
	}
	sink(t, c, "boat-5")
	_, stdout, stderr := gvrwatch(t, "watch", "boats", "-n", "sea", "-o", "name", "--checkpoint", path, "--until-synced")
	for line := range strings.Lines(stdout) {
		told[strings.TrimSpace(line)]++
	}
	for i := range 6 {
		for _, line := range []string{fmt.Sprintf("boat.cli.example.com/boat-%d", i), fmt.Sprintf("boat.cli.example.com/boat-%d deleted", i)} {
			if told[line] == 0 {
				t.Errorf("%q was never told; stderr of the last run: %s", line, stderr)
			}
		}
	}
}
