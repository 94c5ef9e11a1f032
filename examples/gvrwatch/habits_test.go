package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ages matches ages, which differ from run to run.
var ages = regexp.MustCompile(`[0-9]+[sm][0-9s]*`)

// TestHabits: flags and arguments of kubectl do what they do there.
func TestHabits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "columns")
	if err := os.WriteFile(file, []byte("A   B\n.metadata.name  .kind\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ why, args, want string }{
		{"an object by name", "boats argo", "EVENT      NAME   AGE\nADDED      argo   N\n"},
		{"TYPE/NAME", "boats/argo -w", "EVENT      NAME   AGE\nADDED      argo   N\n"},
		{"an object that does not exist", "boats none --allow-missing", ""},
		{"-n does not concern cluster-scoped types", "oceans -n harbour -o name", "ocean.cli.example.com/pacific\n"},
		{"several namespaces", "boats -n default -n harbour --output-watch-events=false --no-headers",
			"default   argo     N\nharbour   bounty   N\n"},
		{"labels", "boats --show-labels -L name,none --output-watch-events=false",
			"NAME   AGE   NAME   NONE   LABELS\nargo   N    argo          name=argo\n"},
		{"JSONPath", "boats -o jsonpath={.metadata.name}", "argo\n"},
		{"JSONPath as JSON", "boats -o jsonpath-as-json={.metadata.name}", "[\n    \"argo\"\n]\n"},
		{"a template of the event", "boats -o jsonpath={.type}/{.object.metadata.name} --output-watch-events",
			"ADDED/argo\n"},
		{"a template without a value", "boats -o jsonpath={.spec.none}", ""},
		{"a Go template", "boats -o go-template={{.kind}}", "Boat\n"},
		{"custom columns", "boats -o custom-columns=NAME:.metadata.name,SIZE:spec.size,NONE:{.none}",
			"NAME   SIZE   NONE\nargo   1      <none>\n"},
		{"custom columns of a file", "boats -o custom-columns-file=" + file, "A      B\nargo   Boat\n"},
		{"names of several types", "boats,oceans -A -o name",
			"boat.cli.example.com/argo\nboat.cli.example.com/bounty\nocean.cli.example.com/pacific\n"},
		{"nothing of what exists", "boats --watch-only --timeout 100ms", ""},
		{"metadata", "boats --metadata-only", "EVENT      NAME   AGE\nADDED      argo   N\n"},
	} {
		args := append([]string{"watch"}, strings.Fields(c.args)...)
		if !strings.Contains(c.args, "--timeout") {
			args = append(args, "--until-synced")
		}
		status, stdout, stderr := runTool(t, args...)
		lines := strings.Split(ages.ReplaceAllString(stdout, "N"), "\n")
		if strings.Contains(c.why, "several") { // in any order
			slices.Sort(lines)
		}
		got := strings.Join(lines, "\n")
		if diff := cmp.Diff(trimmed(c.want), trimmed(strings.TrimPrefix(got, "\n"))); status != 0 || diff != "" {
			t.Errorf("%s: status %d (-want +got):\n%s%s", c.why, status, diff, stderr)
		}
	}
}

// TestMissingNames: a named object that does not exist was not seen.
func TestMissingNames(t *testing.T) {
	status, stdout, stderr := runTool(t, "watch", "boats", "argo", "none", "--until-synced", "-o", "name")
	const want = "gvrwatch: --until-synced: not seen: boats.v1.cli.example.com/none (--allow-missing permits that)\n"
	if status != 1 || stdout != "boat.cli.example.com/argo\n" || !strings.HasSuffix(stderr, want) {
		t.Errorf("status %d, want 1 with %s\n%s%s", status, want, stdout, stderr)
	}
}

// TestCheckpointOfNames: each named object has a checkpoint of its own, so names can be added and left out.
func TestCheckpointOfNames(t *testing.T) {
	db := filepath.Join(t.TempDir(), "positions.db")
	for _, c := range []struct{ names, want string }{
		{"argo", "boat.cli.example.com/argo\n"}, {"argo bounty -A", "boat.cli.example.com/bounty\n"}, {"bounty -A", ""},
	} {
		args := strings.Fields("watch boats --allow-missing --until-synced -o name --checkpoint " + db + " " + c.names)
		if !strings.Contains(c.names, "-A") {
			args = append(args, "-A")
		}
		if status, stdout, stderr := runTool(t, args...); status != 0 || stdout != c.want {
			t.Errorf("%s: status %d, want %q, got %q\n%s", c.names, status, c.want, stdout, stderr)
		}
	}
	_, stdout, _ := runTool(t, "checkpoint", "show", db, "-o", "name")
	if diff := cmp.Diff("boats.cli.example.com_argo\nboats.cli.example.com_bounty\n", stdout); diff != "" {
		t.Errorf("keys have names (-want +got):\n%s", diff)
	}
}

// trimmed returns lines without the spaces that only ages cause.
func trimmed(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// TestManagedFields: they are hidden unless requested.
func TestManagedFields(t *testing.T) {
	for flag, want := range map[string]bool{"": false, "--show-managed-fields": true} {
		_, stdout, _ := runTool(t, strings.Fields("watch boats -o json --until-synced "+flag)...)
		if got := strings.Contains(stdout, "managedFields"); got != want {
			t.Errorf("%q: managedFields are shown: %v, want %v", flag, got, want)
		}
	}
	_, stdout, _ := runTool(t, strings.Fields("watch boats -o json --until-synced --output-watch-events=false")...)
	var o struct{ Kind string }
	if err := json.Unmarshal([]byte(stdout), &o); err != nil || o.Kind != "Boat" {
		t.Errorf("without events, a line is an object: %v: %s", err, stdout)
	}
}

// TestFor: --for ends with status 0 when the condition is met, and with 1 if it is not.
func TestFor(t *testing.T) {
	for _, c := range []struct {
		why, args, stderr string
		status            int
	}{
		{"a condition that is met", "boats argo --for jsonpath={.spec.size}=1", "condition met", 0},
		{"of a cluster-scoped type", "oceans --for jsonpath={.spec.size}=1", "condition met", 0},
		{"in all namespaces", "boats -A --for jsonpath={.spec.size}=1", "condition met", 0},
		{"nothing is left to delete", "boats none --for delete", "condition met", 0},
		{"an object that never exists", "boats none --for create --timeout 200ms",
			"--for=create was not met within --timeout=200ms: boats.cli.example.com default/none does not exist", 1},
		{"a condition that is not met", "boats argo --for condition=Ready --timeout 200ms",
			"--for=condition=Ready was not met within --timeout=200ms: boats.cli.example.com default/argo ", 1},
		{"no objects", "boats -l none=none --for condition=Ready", "--for: there are no objects to wait for", 1},
	} {
		status, _, stderr := runTool(t, append([]string{"watch"}, strings.Fields(c.args)...)...)
		if status != c.status || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: status %d, want %d with %q\n%s", c.why, status, c.status, c.stderr, stderr)
		}
	}
	p := start(t, strings.Fields("watch boats argo --for condition=Ready")...)
	p.awaitStderr("boats.v1.cli.example.com: synced")
	p.signal()
	if _, stderr := p.wait(1); !strings.Contains(stderr, "was not met before the signal") {
		t.Errorf("a signal is no success of --for:\n%s", stderr)
	}
}

// TestExec: a command gets each event, and what it has not handled comes again after a restart.
func TestExec(t *testing.T) {
	dir := t.TempDir()
	db := filepath.Join(dir, "positions.db")
	handle := func(command string, flags ...string) (int, string, string) {
		args := []string{"watch", "boats", "-A", "--until-synced", "--checkpoint", db, "--exec", command}
		return runTool(t, append(args, flags...)...)
	}
	const fails = `read event; [ $GVRWATCH_NAME != bounty ] || exit 3
		echo "$GVRWATCH_TYPE $GVRWATCH_NAMESPACE/$GVRWATCH_NAME"`
	status, stdout, stderr := handle(fails, "--exec-retries", "1")
	const again = "harbour/bounty: the command failed, trying again in"
	if status != 1 || stdout != "ADDED default/argo\n" || !strings.Contains(stderr, again) {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
	status, stdout, stderr = handle("cat")
	var ev struct {
		Type, Resource string
		Object         struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(stdout), &ev); err != nil || status != 0 || ev.Object.Metadata.Name != "bounty" ||
		ev.Type != "ADDED" || ev.Resource != "boats.v1.cli.example.com" {
		t.Errorf("status %d, %v, %+v: only what was not handled must come again\n%s%s", status, err, ev, stdout, stderr)
	}
	if status, stdout, stderr = handle("cat"); status != 0 || stdout != "" {
		t.Errorf("status %d: all is handled, but %s%s", status, stdout, stderr)
	}
	limited := func(flags ...string) (int, string, string) {
		return runTool(t, append([]string{"watch", "boats", "-A", "--limit", "1", "--exec"}, flags...)...)
	}
	status, stdout, stderr = limited("exit 3", "--exec-retries", "1")
	if status != 1 || !strings.Contains(stderr, "the command failed for ") {
		t.Errorf("status %d: --limit must not hide that no try is left\n%s%s", status, stdout, stderr)
	}
	status, stdout, stderr = limited(`printf '\033[31mred\n'`)
	if status != 0 || stdout != "\x1b[31mred\n" {
		t.Errorf("status %d: what a command prints must not be changed: %q\n%s", status, stdout, stderr)
	}
	for args, want := range map[string]string{
		"--exec x -o json":                     "--exec and --output exclude each other",
		"--exec x --exec-workers 0":            "--exec-workers=0: must be at least 1",
		"--exec x --exec-workers 1048576":      "--exec-workers=1048576: must be at most 1000",
		"--exec x --exec-retries -1":           "--exec-retries=-1: must not be negative",
		"--exec x --exec-timeout -1s":          "--exec-timeout=-1s: must not be negative",
		"--exec-timeout 1s":                    "--exec-timeout: applies only to --exec",
		"--exec-workers 4":                     "--exec-workers: applies only to --exec",
		"--exec x --output-watch-events=false": "does not apply to --output=diff and --exec",
		"--exec x --no-headers":                "do not apply to --exec: it prints no table",
		"--exec= ":                             "--exec: must not be empty",
		"--exec x --for condition=Yes":         "--for and --exec exclude each other",
	} {
		status, _, stderr := runTool(t, append([]string{"watch", "boats"}, strings.Fields(args)...)...)
		if status != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, want 2 with %q\n%s", args, status, want, stderr)
		}
	}
}

// TestDiff: -o diff prints what has changed, and who changed it.
func TestDiff(t *testing.T) {
	s := newScripted(t, robotType)
	s.Put(robotType, "default", "a", "spec.n=1")
	p := s.start("watch robots -o diff")
	p.awaitStderr("robots.v1.example.com: synced")
	s.Put(robotType, "default", "a", "spec.n=2")
	p.awaitStdout("spec.n")
	s.Put(robotType, "default", "a", "spec.m=x", "spec.n=3")
	p.awaitStdout("spec.n")
	long := strings.Repeat("a-value-that-is-long-", 5)
	s.Put(robotType, "default", "a", "spec.m="+long+"1"+long)
	p.awaitStdout("spec.m")
	s.Put(robotType, "default", "a", "spec.m="+long+"2"+long)
	p.awaitStdout("→")
	if _, err := s.Delete(robotType, "default", "a"); err != nil {
		t.Fatal(err)
	}
	p.awaitStdout("DELETED")
	stdout, _ := p.end()
	const want = `ADDED     robot default/a
MODIFIED  robot default/a  spec.n: 1 → 2
MODIFIED  robot default/a
          + spec.m: x
          spec.n: 2 → 3
MODIFIED  robot default/a
          spec.m: x → a-value-that-is-long-a-value-that-is-lon…alue-that-is-long-a-value-that-is-long-
MODIFIED  robot default/a
          spec.m: …is-long-1a-value-… → …is-long-2a-value-…
DELETED   robot default/a
`
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestCompletion: the shell completes types, names, namespaces, contexts and outputs.
func TestCompletion(t *testing.T) {
	for _, c := range []struct{ why, args, want string }{
		{"types", "watch bo", "boats\tBoat of cli.example.com/v1\n:6\n"},
		{"the last type of a list", "watch boats,oc", "boats,oceans\tOcean of cli.example.com/v1\n:6\n"},
		{"names", "watch boats a", "argo\n:4\n"},
		{"names in a namespace", "watch boats -n harbour b", "bounty\n:4\n"},
		{"TYPE/NAME", "watch boats/ar", "boats/argo\n:4\n"},
		{"contexts", "watch boats --context g", "gvrwatch-devserver\n:4\n"},
		{"outputs", "watch boats -o js", "json\njsonpath=\njsonpath-as-json=\njsonpath-file=\n:4\n"},
		{"nothing for an unknown type", "watch none a", ":4\n"},
		{"of resources, too", "resources -o w", "wide\nname\njson\n:4\n"},
	} {
		status, stdout, stderr := runTool(t, append([]string{"__complete"}, strings.Fields(c.args)...)...)
		if diff := cmp.Diff(c.want, stdout); status != 0 || diff != "" {
			t.Errorf("%s: status %d (-want +got):\n%s%s", c.why, status, diff, stderr)
		}
	}
	for _, shell := range []string{"bash", "zsh"} {
		status, stdout, _ := runTool(t, "completion", shell)
		if status != 0 || !strings.Contains(stdout, "__complete") {
			t.Errorf("completion %s: status %d, %d bytes", shell, status, len(stdout))
		}
	}
	if fmt.Sprint(isPlugin("/bin/kubectl-gvrwatch"), isPlugin("/bin/gvrwatch")) != "true false" {
		t.Error("a plugin is named kubectl-gvrwatch")
	}
}
