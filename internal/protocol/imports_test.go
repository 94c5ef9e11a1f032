package protocol

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The protocol imports apimachinery's comparison of versions, and of the standard library nothing that does I/O.
func TestProtocolImportsNoIO(t *testing.T) {
	allowed := []string{"cmp", "errors", "fmt", "slices", "strings", "time",
		"k8s.io/apimachinery/pkg/util/resourceversion"}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range f.Imports {
			seen++
			if path, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", file.Name(), path)
			}
		}
	}
	if seen == 0 {
		t.Error("no imports were found")
	}
}
