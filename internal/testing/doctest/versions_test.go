package doctest

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentsNameTheOldestVersions: the library and examples/metrics require one version of client-go and of its
// modules, and the documents name that version and the one of Go.
func TestDocumentsNameTheOldestVersions(t *testing.T) {
	found := func(file, expression string) string {
		t.Helper()
		match := regexp.MustCompile(expression).FindStringSubmatch(read(t, filepath.Join(root, file)))
		if match == nil {
			t.Fatalf("%s: nothing matches %s", file, expression)
		}
		return match[1]
	}
	goVersion := found("go.mod", `(?m)^go (\d+\.\d+)\.0$`)
	clientGo := found("go.mod", `\tk8s\.io/client-go v(\S+)\n`)
	tests := []struct{ why, file, expression, want string }{
		{"it is released with client-go", "go.mod", `\tk8s\.io/api v(\S+)\n`, clientGo},
		{"it is released with client-go", "go.mod", `\tk8s\.io/apimachinery v(\S+)\n`, clientGo},
		{"it is for the same programs", "examples/metrics/go.mod", `(?m)^go (\d+\.\d+)\.0$`, goVersion},
		{"it is for the same programs", "examples/metrics/go.mod", `\tk8s\.io/client-go v(\S+)\n`, clientGo},
		{"it says so", "README.md", `\| Go \| (\S+) \|`, goVersion},
		{"it says so", "README.md", `\| client-go, apimachinery, k8s\.io/api \| (\S+) \|`, clientGo},
		{"it says so", "README.md", `of a program that\s+has (\S+) or newer`, clientGo},
		{"it says so", "docs/release.md", `\| Go \| (\S+) \|`, goVersion},
		{"it says so", "docs/release.md", `\| client-go, apimachinery, k8s\.io/api \| (\S+) \|`, clientGo},
		{"it says so", "docs/migrating.md", `The library needs Go (\S+) and client-go`, goVersion},
		{"it says so", "docs/migrating.md", `The library needs Go \S+ and client-go (\S+), or newer`,
			strings.TrimSuffix(clientGo, ".0")},
	}
	for _, tt := range tests {
		if got := found(tt.file, tt.expression); got != tt.want {
			t.Errorf("%s, %s: got %s, want %s: %s", tt.file, tt.expression, got, tt.want, tt.why)
		}
	}
}
