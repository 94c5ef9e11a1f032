package doctest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// packagesRow matches a row of the table in docs/migrating.md that says how many packages imports compile.
var packagesRow = regexp.MustCompile("(?m)^\\| (`[^|]+) \\| (\\d+) \\| (\\d+) \\|$")

// TestPackagesAreCounted: docs/migrating.md says about how many packages each public package compiles. The version of
// client-go changes the numbers by less than a tenth.
func TestPackagesAreCounted(t *testing.T) {
	counted := map[string]bool{}
	for _, row := range packagesRow.FindAllStringSubmatch(read(t, filepath.Join(root, "docs/migrating.md")), -1) {
		for i, code := range strings.Split(row[1], "`") {
			if i%2 == 0 {
				continue
			}
			if counted[code] = true; publicPackages(t)[code] == nil {
				t.Errorf("there is no package %s with tests", code)
				continue
			}
			all, kubernetes := compiled(t, code)
			for _, n := range []struct {
				what      string
				want, got int
			}{{"packages", number(t, row[2]), all}, {"packages of k8s.io", number(t, row[3]), kubernetes}} {
				if off := max(n.want-n.got, n.got-n.want); off > max(1, n.got/10) {
					t.Errorf("%s compiles %d %s, the table has %d", code, n.got, n.what, n.want)
				}
			}
		}
	}
	for dir := range publicPackages(t) {
		if !counted[dir] {
			t.Errorf("the table lacks %s", dir)
		}
	}
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// compiled counts what a package compiles besides the standard library, and what of it is of k8s.io.
func compiled(t *testing.T, dir string) (all, kubernetes int) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+dir)
	list.Dir, list.Env = root, append(os.Environ(), "GOWORK=off")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", dir, err)
	}
	for line := range strings.Lines(string(out)) {
		if path := strings.TrimSpace(line); path != "" {
			all++
			if strings.HasPrefix(path, "k8s.io/") {
				kubernetes++
			}
		}
	}
	return all, kubernetes
}

// TestMigratingHasTheStoreThatIsChecked: docs/migrating.md shows the Store of checkpoint.ExampleStore, which runs.
func TestMigratingHasTheStoreThatIsChecked(t *testing.T) {
	example := read(t, filepath.Join(root, "checkpoint/example_store_test.go"))
	_, code, _ := strings.Cut(example, "// Values is")
	code, _, found := strings.Cut(code, "\n// inMemory is")
	page := read(t, filepath.Join(root, "docs/migrating.md"))
	if !found || !strings.Contains(page, "```go\n// Values is"+code+"```") {
		t.Errorf("docs/migrating.md has another Store than checkpoint/example_store_test.go:\n%s", code)
	}
}
