package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
)

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
		args = append([]string{"watch", "boats", "-n", "dock", "-o", "name", "--checkpoint", path}, args...)
		status, stdout, stderr := runTool(t, args...)
		if status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		return stdout
	}
	launch(t, c, "nina")
	launch(t, c, "pinta")
	want := "boat.cli.example.com/nina\nboat.cli.example.com/pinta\n"
	if diff := cmp.Diff(want, watch("--until-synced")); diff != "" {
		t.Errorf("the first run prints everything (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("", watch("--until-synced")); diff != "" {
		t.Errorf("nothing is printed if nothing has changed (-want +got):\n%s", diff)
	}
	sink(t, c, "nina")
	launch(t, c, "santa-maria")
	want = "boat.cli.example.com/nina deleted\nboat.cli.example.com/santa-maria\n"
	if diff := cmp.Diff(want, watch("--limit", "2")); diff != "" {
		t.Errorf("without --until-synced the events since the checkpoint are printed (-want +got):\n%s", diff)
	}
	sink(t, c, "pinta")
	launch(t, c, "nina")
	sink(t, c, "nina")
	if diff := cmp.Diff("boat.cli.example.com/pinta deleted\n", watch("--until-synced")); diff != "" {
		t.Errorf("with --until-synced only the differences are printed (-want +got):\n%s", diff)
	}
	if err := c.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestCheckpointMistakes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "positions.db")
	if status, _, stderr := runTool(t, "watch", "boats", "-A", "--until-synced", "--checkpoint", path); status != 0 {
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
		{[]string{"watch", "boats", "-n", "harbour", "--checkpoint", path}, 1,
			`checkpoint "boats.cli.example.com" is for namespaces (none), not "harbour": use another file, ` +
				"or 'gvrwatch checkpoint reset " + path + " boats.cli.example.com'\n",
			"a checkpoint is valid for one set of namespaces only"},
		{[]string{"watch", "boats", "-A", "-l", "a=b", "--checkpoint", path}, 1,
			`is for label selector (none), not "a=b"`,
			"a checkpoint is valid for one selector only"},
		{[]string{"watch", "boats", "--checkpoint", dir}, 1, "must be a regular file", "a folder is refused"},
		{[]string{"watch", "boats", "--checkpoint", locked}, 1, fmt.Sprintf("is in use by process %d", os.Getpid()),
			"watch refuses a file that another process, or this one, has opened"},
		{[]string{"checkpoint", "show", locked}, 1, "end that process first, or use another file\n",
			"show refuses an opened file"},
		{[]string{"checkpoint", "show", filepath.Join(dir, "none")}, 1, "no such file", "show does not create a file"},
		{[]string{"checkpoint", "reset", path, "pods"}, 1,
			`no checkpoint "pods" in ` + path + ": it has boats.cli.example.com",
			"the error of an unknown key lists the known ones"},
		{[]string{"watch", "boats", "--checkpoint", ""}, 2, "--checkpoint: must not be empty",
			"an empty name is refused, as from an unset variable"},
		{[]string{"checkpoint", "show"}, 2, "must have FILE, and may have KEY", "show needs a file"},
		{[]string{"checkpoint", "show", path, "-o", "csv"}, 2, "--output=csv: must be one of",
			"an unknown format is refused"},
		{[]string{"checkpoint", "forget", path}, 2, `unknown command "forget"`, "an unknown command is refused"},
	}
	for _, tt := range tests {
		status, stdout, stderr := runTool(t, tt.args...)
		if status != tt.status || !strings.Contains(stderr, tt.want) || stdout != "" {
			t.Errorf("%q: %s: status %d, want %d; stdout %q, stderr %q, want %q",
				tt.args, tt.why, status, tt.status, stdout, stderr, tt.want)
		}
	}
}

func TestCheckpointShowAndReset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions.db")
	status, _, stderr := runTool(t, "watch", "boats,oceans", "-A", "--until-synced", "--checkpoint", path)
	if status != 0 {
		t.Fatal(stderr)
	}
	show := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := runTool(t, append([]string{"checkpoint", "show", path}, args...)...)
		if status != 0 {
			t.Fatalf("%q: status %d: %s", args, status, stderr)
		}
		return stdout
	}
	row := regexp.MustCompile(`(?m)^oceans.cli.example.com +<all> +[0-9]+ +1 +[0-9]+s ago$`)
	if got := show(); !row.MatchString(got) || strings.Count(got, "\n") != 3 {
		t.Errorf("want a header and a row for each type, got\n%s", got)
	}
	var document checkpointDocument
	if err := json.Unmarshal([]byte(show("oceans.cli.example.com", "-o", "json")), &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Objects) != 1 || document.Objects[0].Name != "pacific" ||
		document.ResourceVersions[""] == "" || document.Identity.Cluster.Address == "" {
		t.Errorf("incomplete JSON: %+v", document)
	}
	if got := show("-o", "yaml"); strings.Count(got, "---\n") != 1 || !strings.Contains(got, "name: pacific\n") {
		t.Errorf("want one YAML document for each type, got\n%s", got)
	}
	_, stdout, _ := runTool(t, "checkpoint", "reset", path, "oceans.cli.example.com")
	if stdout != "oceans.cli.example.com reset\n" {
		t.Errorf("reset of one key: %q", stdout)
	}
	if got := show("-o", "name"); got != "boats.cli.example.com\n" {
		t.Errorf("after the reset of one key show prints %q", got)
	}
	if _, stdout, _ := runTool(t, "checkpoint", "reset", path); stdout != "boats.cli.example.com reset\n" {
		t.Errorf("reset of all keys: %q", stdout)
	}
	if got := show(); got != "" {
		t.Errorf("after the reset of all keys show prints %q", got)
	}
}

// TestDamagedCheckpoint: the error of a checkpoint that can't be read says what to do.
func TestDamagedCheckpoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions.db")
	status, _, stderr := runTool(t, "watch", "boats", "-A", "--until-synced", "-o", "name", "--checkpoint", path)
	b, err := os.ReadFile(path)
	if err != nil || status != 0 {
		t.Fatal(err, stderr)
	}
	refused := 0
	for i := 0; i < len(b); i += 16 {
		damaged := bytes.Clone(b)
		damaged[i] ^= 0x20
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		status, stdout, stderr := runTool(t, "checkpoint", "show", path)
		if status == 0 {
			continue // the end of the file was repaired
		}
		refused++
		if !strings.HasSuffix(stderr, "restore a copy of the file, or move it away to start from the beginning\n") ||
			stdout != "" {
			t.Errorf("byte %d: the error does not say what to do: %s%s", i, stdout, stderr)
		}
	}
	if refused == 0 {
		t.Error("no damage is refused")
	}
	ofOne := &checkpoint.CorruptError{Store: "a.db", Err: errors.New(
		"bad: delete the checkpoint (Store.Delete, gvrwatch checkpoint reset), or restore a copy of the file")}
	const want = "can't read checkpoints from a.db: bad: delete the checkpoint " +
		"('gvrwatch checkpoint reset a.db KEY'), or restore a copy of the file"
	got := explainCheckpoint("a.db", fmt.Errorf("failed: %w", ofOne))
	if got.Error() != "failed: "+want || !errors.Is(got, ofOne) {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestWatchKilled kills the program several times while it prints, and starts it again: no event may be lost.
func TestWatchKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "positions.db")
	c := newBoats(t, "sea")
	printed := map[string]int{}
	for i := range 6 {
		launch(t, c, fmt.Sprint("boat-", i))
		if i > 0 {
			sink(t, c, fmt.Sprint("boat-", i-1))
		}
		cmd := process(t, "watch", "boats", "-n", "sea", "-o", "name", "--checkpoint", path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		last := fmt.Sprintf("boat.cli.example.com/boat-%d", i)
		deleted := fmt.Sprintf("boat.cli.example.com/boat-%d deleted", i-1)
		for lines.Scan() {
			printed[lines.Text()]++
			if lines.Text() == last || i > 0 && lines.Text() == deleted && printed[last] > 0 {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // printed before the kill
			printed[lines.Text()]++
		}
		_ = cmd.Wait()
	}
	sink(t, c, "boat-5")
	_, stdout, stderr := runTool(t,
		"watch", "boats", "-n", "sea", "-o", "name", "--checkpoint", path, "--until-synced")
	for line := range strings.Lines(stdout) {
		printed[strings.TrimSpace(line)]++
	}
	for i := range 6 {
		added := fmt.Sprintf("boat.cli.example.com/boat-%d", i)
		for _, line := range []string{added, added + " deleted"} {
			if printed[line] == 0 {
				t.Errorf("%q was never printed; stderr of the last run: %s", line, stderr)
			}
		}
	}
}
