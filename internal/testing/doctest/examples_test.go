package doctest

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// publicPackages returns the folders, relative to the root, of the packages that users can import, each with its test
// files.
func publicPackages(t *testing.T) map[string][]string {
	t.Helper()
	all, tests := map[string][]string{}, map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := path != root && strings.HasPrefix(d.Name(), ".")
		if d.IsDir() && (hidden || slices.Contains([]string{"examples", "internal", "testdata"}, d.Name())) {
			return fs.SkipDir
		}
		dir, _ := filepath.Rel(root, filepath.Dir(path))
		switch {
		case strings.HasSuffix(path, "_test.go"):
			tests[dir] = append(tests[dir], path)
		case strings.HasSuffix(path, ".go"):
			all[dir] = nil
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir := range all {
		all[dir] = tests[dir]
	}
	return all
}

// examples returns the examples of a test file, and the names that it uses and does not declare.
func examples(t *testing.T, path string, src any) (found []*doc.Example, undeclared []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]bool{}
	for _, one := range file.Imports {
		path := strings.Split(strings.Trim(one.Path.Value, `"`), "/")
		imported[path[len(path)-1]] = true
		if one.Name != nil {
			imported[one.Name.Name] = true
		}
	}
	for _, name := range file.Unresolved {
		if !imported[name.Name] && types.Universe.Lookup(name.Name) == nil {
			undeclared = append(undeclared, name.Name)
		}
	}
	return doc.Examples(file), undeclared
}

// flaws returns what is wrong with the examples of a package: the one of the package itself is a whole file, which
// documentation shows from package clause to end, and all run and use nothing of other test files.
func flaws(t *testing.T, files map[string]any) (all []string) {
	t.Helper()
	first := 0
	for _, path := range slices.Sorted(maps.Keys(files)) {
		found, undeclared := examples(t, path, files[path])
		for _, e := range found {
			name := "Example" + e.Name
			_, whole := e.Code.(*ast.File)
			if e.Name == "" {
				first++
			}
			switch {
			case e.Output == "" && !e.EmptyOutput:
				all = append(all, name+" has no Output comment")
			case e.Name == "" && !whole:
				all = append(all, name+" must be alone in its file, beside a function, type or variable that it uses")
			case whole && len(undeclared) > 0 || e.Play == nil:
				all = append(all, name+" uses names of other test files: "+strings.Join(undeclared, ", "))
			}
		}
	}
	if first != 1 {
		all = append(all, "must have a func Example()")
	}
	return all
}

// TestEachPackageHasAnExample: each public package has one Example that shows a complete program.
func TestEachPackageHasAnExample(t *testing.T) {
	packages := publicPackages(t)
	if len(packages) < 14 || packages["."] == nil {
		t.Errorf("found only %q", slices.Sorted(maps.Keys(packages)))
	}
	for dir, tests := range packages {
		files := map[string]any{}
		for _, path := range tests {
			files[path] = nil
		}
		for _, flaw := range flaws(t, files) {
			t.Errorf("package %s: %s", dir, flaw)
		}
	}
}

// TestFlawsOfExamplesAreFound: an example that documentation would show incomplete is reported.
func TestFlawsOfExamplesAreFound(t *testing.T) {
	const header, output = "package p_test\n\nimport \"fmt\"\n\n", "\t// Output: 1\n}\n"
	tests := []struct{ text, want, why string }{
		{"var one = 1\n\nfunc Example() {\n\tfmt.Println(one)\n" + output, "", "a whole file"},
		{"func Example() {\n\tfmt.Println(1)\n" + output, "must be alone", "nothing beside it"},
		{"var one = 1\n\nfunc Example() {\n\tfmt.Println(one)\n}\n", "no Output", "it does not run"},
		{"var two = one\n\nfunc Example() {\n\tfmt.Println(two)\n" + output, "other test files: one", "a helper"},
		{"func ExampleF() {\n\tfmt.Println(one)\n" + output, "other test files: one", "a helper of another example"},
		{"func ExampleF() {\n\tfmt.Println(1)\n" + output, "must have a func Example()", "none of the package"},
		{"var one = 1\n\nfunc Example() {\n\tfmt.Println(one)\n" + output +
			"\nfunc ExampleF() {\n\tfmt.Println(1)\n" + output, "must be alone", "two in a file"},
	}
	for _, tt := range tests {
		got := strings.Join(flaws(t, map[string]any{"example_test.go": header + tt.text}), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.why, got, tt.want)
		}
	}
}
