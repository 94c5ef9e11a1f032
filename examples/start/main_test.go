package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo is a compiler that takes more than a second, and whose programs print their arguments.
const fakeGo = `#!/bin/sh
echo "go: downloading k8s.io/api v0.1.0" >&2
echo k8s.io/api/core/v1 >&2
sleep 1.3
case $5 in *broken) echo "main.go:1:2: undefined: x" >&2; exit 1;; esac
printf '#!/bin/sh\necho "$@" >&2\nexit 7\n' > "$4"
chmod +x "$4"
`

// TestStart: what takes long is said first, then the program runs with its arguments, and start ends with its status.
func TestStart(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "go"), []byte(fakeGo), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("TMPDIR", t.TempDir())
	for _, tt := range []struct {
		why, pkg string
		status   int
		want     string // on stderr, after the first line
		err      string
	}{
		{"a program", "example.com/demo", 7, "", ""},
		{"a program that can't be compiled", "example.com/broken", 1, "main.go:1:2: undefined: x\n",
			"go build example.com/broken: exit status 1"},
	} {
		var stderr bytes.Buffer
		status, err := start(tt.pkg, []string{"a", "b"}, &stderr)
		first, rest, _ := strings.Cut(stderr.String(), "\n")
		if !strings.HasPrefix(first, "start: compiling "+tt.pkg+": the first time takes minutes") {
			t.Errorf("%s: the first line is %q", tt.why, first)
		}
		message := ""
		if err != nil {
			message = err.Error()
		}
		if rest != tt.want || status != tt.status || message != tt.err {
			t.Errorf("%s: status %d, %v, %q", tt.why, status, err, rest)
		}
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("%s: the temporary folder must be empty: %v, %v", tt.why, left, err)
		}
	}
}

// TestProgramsExist: each name is that of a folder with a program.
func TestProgramsExist(t *testing.T) {
	for name, folder := range programs {
		text, err := os.ReadFile(filepath.Join("..", folder, "main.go"))
		if err != nil || !bytes.Contains(text, []byte("package main")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
