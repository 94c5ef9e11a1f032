package adapters_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInstallWithoutRegistries: what can't be installed is a line with the cause, also if an earlier run has installed
// it, and the rest is there. The loop of the page is what runs.
func TestInstallWithoutRegistries(t *testing.T) {
	bin, folder := t.TempDir(), filepath.Join(t.TempDir(), "clients")
	const tools = "awk basename bash chmod cp cut dirname grep install mkdir mktemp rm sed tail tr uname"
	for _, name := range strings.Fields(tools) {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	// Instead of Debian's: jq and curl are installed, everything else is not, and there is no apt-get.
	dpkg := "#!/bin/sh\ncase $4 in jq | curl) echo installed ;; *) exit 1 ;; esac\n"
	if err := os.WriteFile(filepath.Join(bin, "dpkg-query"), []byte(dpkg), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, earlier := range []string{"python-watch", "client-node", "kubectl", "my-own"} {
		if err := os.WriteFile(filepath.Join(folder, earlier), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}

	install := exec.CommandContext(t.Context(), "./install", folder)
	install.Env = []string{"PATH=" + bin}
	output, err := install.CombinedOutput()
	if err != nil {
		t.Fatalf("install: %v: %s", err, output)
	}

	var missing []string
	form := regexp.MustCompile(`^install: ([\w.-]+): .*(apt-get|npm|go): command not found\n$`)
	for line := range strings.Lines(string(output)) {
		m := form.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("unexpected line %q", line)
		} else if m[2] != "go" || m[1] == "kubectl" { // the adapters in Go have tests of their own
			missing = append(missing, m[1]+" by "+m[2])
		}
	}
	want := []string{"python3-kubernetes by apt-get", "client-node by npm", "kubectl by go"}
	if diff := cmp.Diff(want, missing); diff != "" {
		t.Errorf("lines on stderr (-want +got):\n%s", diff)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			there = append(there, e.Name())
		}
	}
	if diff := cmp.Diff([]string{"curl-loop", "my-own"}, there); diff != "" {
		t.Errorf("programs (-want +got):\n%s", diff)
	}

	page, err := os.ReadFile("../../../../docs/judge.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(folder, "curl-loop"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## A loop around curl\n")
	_, fence, _ := strings.Cut(section, "\n```bash\n")
	loop, _, _ := strings.Cut(fence, "```\n")
	if diff := cmp.Diff(loop, string(script)); diff != "" {
		t.Errorf("curl-loop (-page +installed):\n%s", diff)
	}
}
