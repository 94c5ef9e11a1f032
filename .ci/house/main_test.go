package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestCheck(t *testing.T) {
	fields := func(n int) string {
		return "struct {\n" + strings.Repeat("\ta, b int\n", n/2) + strings.Repeat("\tint\n", n%2) + "}\n"
	}
	for _, c := range []struct {
		why     string
		files   map[string]string
		budgets []budget
		allowed string // words.txt
		wide    string // structs.txt
		want    []string
	}{{
		why:   "a small package has no problem",
		files: map[string]string{"a/a.go": "package a\n\nfunc A() {}\n", "README.md": "# A\n"},
	}, {
		why: "each exported top-level name counts, methods and fields do not",
		files: map[string]string{"a/a.go": `package a
type T struct{ X, Y int }
type u int
func (T) M() {}
func F() {}
func g() {}
const A, b = 1, 2
var ( C = 1; D, e = 2, 3 )
`},
		budgets: []budget{{[]string{"a"}, 4}},
		want:    []string{"a: 5 exported names, 4 at most"},
	}, {
		why: "the names of a test do not count",
		files: map[string]string{
			"a/a.go": "package a\n", "a/a_test.go": "package a\n\nvar A int\n", "a/testdata/b.go": "no Go",
		},
		budgets: []budget{{[]string{"a"}, 0}},
	}, {
		why:     "packages share a budget",
		files:   map[string]string{"a/a.go": "package a\n\nvar A int\n", "a/b/b.go": "package b\n\nvar B int\n"},
		budgets: []budget{{[]string{"a", "a/b"}, 1}},
		want:    []string{"a + a/b: 2 exported names, 1 at most"},
	}, {
		why:     "a package that was moved must not leave its budget behind",
		files:   map[string]string{"a/a.go": "package a\n"},
		budgets: []budget{{[]string{"b"}, 1}},
		want:    []string{"b: no such package: correct .ci/house/main.go"},
	}, {
		why: "a file of the library has 400 lines at most; tests and examples may have more",
		files: map[string]string{
			"a/a.go":          "package a\n" + strings.Repeat("\n", 399),
			"a/b.go":          "package a\n" + strings.Repeat("\n", 400),
			"a/b_test.go":     "package a\n" + strings.Repeat("\n", 400),
			"examples/c/c.go": "package c\n" + strings.Repeat("\n", 400),
		},
		want: []string{"a/b.go: 401 lines, 400 at most: split it"},
	}, {
		why: "a struct has ten fields at most, unless structs.txt gives a reason; embedded ones count",
		files: map[string]string{
			"a/a.go":          "package a\n\ntype A " + fields(10) + "\ntype B " + fields(11) + "\ntype C " + fields(11),
			"a/a_test.go":     "package a\n\nvar rows = []" + strings.TrimSpace(fields(11)) + "{}\n",
			"examples/b/b.go": "package b\n\nfunc f() {\n\ttype F " + fields(11) + "}\n",
		},
		wide: "# comment\n\na/a.go C 11: it is a record",
		want: []string{
			"a/a.go:11:8: B has 11 fields, 10 at most: group them, or give a reason in .ci/house/structs.txt",
			"a/a_test.go:3:14: a struct has 11 fields, 10 at most: group them, or give a reason in .ci/house/structs.txt",
			"examples/b/b.go:4:9: F has 11 fields, 10 at most: group them, or give a reason in .ci/house/structs.txt",
		},
	}, {
		why:   "a reason is for one struct with one number of fields, and only while it has them",
		files: map[string]string{"a/a.go": "package a\n\ntype A " + fields(12), "a/b.go": "package a\n\ntype B " + fields(11)},
		wide:  "a/a.go A 11: it was a record\na/a.go B 11: it was there",
		want: []string{
			"a/a.go:3:8: A has 12 fields, 10 at most: group them, or give a reason in .ci/house/structs.txt",
			"a/b.go:3:8: B has 11 fields, 10 at most: group them, or give a reason in .ci/house/structs.txt",
			".ci/house/structs.txt: a/a.go has no A of 11 fields: correct the line",
			".ci/house/structs.txt: a/a.go has no B of 11 fields: correct the line",
		},
	}, {
		why: "a line of Go has 120 columns at most, a tab counts as 4; Markdown may have more",
		files: map[string]string{
			"a/a.go":      "package a\n\n\t//" + strings.Repeat("x", 114) + "\n",
			"a/a_test.go": "package a\n\n\t//" + strings.Repeat("x", 115) + "\n",
			"b.md":        strings.Repeat("x", 121) + "\n",
		},
		want: []string{"a/a_test.go:3: 121 columns, 120 at most"},
	}, {
		why: "the glossary's words are found in names, comments and documents, in any case, also within identifiers",
		files: map[string]string{
			"a/a.go": "package a\n\nvar lane int // Told.\nvar laneOf, isTold2, retell int\n",
			"b.md":   "a planet\nAnew\n", "testdata/c.md": "told\n", ".ci/d.md": "told\n",
		},
		want: []string{
			`a/a.go:3: the glossary replaces "lane": worker`,
			`a/a.go:3: the glossary replaces "Told": delivered, emitted, reported`,
			`a/a.go:4: the glossary replaces "lane": worker`,
			`a/a.go:4: the glossary replaces "Told": delivered, emitted, reported`,
			`b.md:2: the glossary replaces "Anew": again, restart`,
		},
	}, {
		why:     "a word is allowed in the named file only, and only while it is there",
		files:   map[string]string{"a/a.go": "package a\n\nvar _ = math.Floor(1) // floor\n", "b.md": "floor\n"},
		allowed: "# comment\n\na/a.go floor: the function of package math\nb.md told: gone\n",
		want: []string{
			`b.md:1: the glossary replaces "floor": minimum version`,
			`.ci/house/words.txt: b.md has no "told": remove the line`,
		},
	}, {
		why: "internal/protocol does no I/O through others",
		files: map[string]string{
			"internal/protocol/a.go": "package protocol\n\nimport (\n\t\"net/url\"\n" +
				"\t\"k8s.io/apimachinery/pkg/util/resourceversion\"\n\t\"k8s.io/apimachinery/pkg/watch\"\n)\n",
			"internal/protocol/a_test.go": "package protocol\n\nimport \"github.com/google/go-cmp/cmp\"\n",
			"b/b.go":                      "package b\n\nimport \"k8s.io/client-go/rest\"\n",
		},
		want: []string{"internal/protocol/a.go: imports k8s.io/apimachinery/pkg/watch: internal/protocol may import " +
			"the standard library and k8s.io/apimachinery/pkg/util/resourceversion only"},
	}} {
		t.Run(c.why, func(t *testing.T) {
			repo := fstest.MapFS{
				"internal/protocol/doc.go": {Data: []byte("package protocol\n")},
				wordsFile:                  {Data: []byte(c.allowed)},
				structsFile:                {Data: []byte(c.wide)},
			}
			for name, text := range c.files {
				repo[name] = &fstest.MapFile{Data: []byte(text)}
			}
			r, err := check(repo, c.budgets)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(c.want, r.problems) {
				t.Errorf("want %q\n got %q", c.want, r.problems)
			}
		})
	}
}

func TestExceptionsNeedAReason(t *testing.T) {
	for file, c := range map[string]struct {
		form  string
		lines []string
	}{
		wordsFile: {"FILE WORD: REASON", []string{"a.go told", "a.go told: ", "a.go: reason", "a.go told lane: reason"}},
		structsFile: {"FILE TYPE FIELDS: REASON", []string{
			"a.go T 11", "a.go T 11: ", "a.go T: reason", "a.go T many: reason", "a.go T U 11: reason",
		}},
	} {
		for _, line := range c.lines {
			_, err := check(fstest.MapFS{file: {Data: []byte("# why\n" + line)}}, nil)
			want := fmt.Sprintf("%s:2: invalid line %q: must be %q", file, strings.TrimSpace(line), c.form)
			if err == nil || err.Error() != want {
				t.Errorf("%q: want error %q, got %v", line, want, err)
			}
		}
	}
}

func TestPrintCountsLinesTestsAndExports(t *testing.T) {
	r, err := check(fstest.MapFS{
		"internal/protocol/a.go":      {Data: []byte("package protocol\n\nvar A int\n")},
		"internal/protocol/a_test.go": {Data: []byte("package protocol\n")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	r.print(&got)
	const want = `package                            lines   tests  exported
internal/protocol                      3       1         1
problems: 0
`
	if got.String() != want {
		t.Errorf("want\n%s\ngot\n%s", want, got.String())
	}
}
