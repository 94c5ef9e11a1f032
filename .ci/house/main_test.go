package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const (
	split     = "split it, or give a reason in .ci/house/structs.txt"
	bareEmbed = " without a comment: name the field, or give the reason beside it"
	eachOther = " hold each other: give one of them a function or a part of the other"

	// B has 1 field, and what it embeds: 8, 6 and 3 fields, 3 types that count as one, 12, 13 and 1 methods.
	wideB = `package b

import (
	"sync"
	watch "github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/a"
)

type B struct {
	watch.Root // It is needed.
	*a.Alias   // It is needed.
	local      // It is needed.
	a.List
	sync.Mutex
	sync.Locker
	x int
}
type local struct{ a, b, c int }

func (local) m() {}
`
	// D has 4 fields, the 3 of B, the 14 of A, and A once more.
	twice = `type A struct{ a, b, c, d, e, f, g, h, i, j, k, l, m, n int }
type B struct {
	A // It is needed.
	x, y, z int
}
type D struct {
	B // It is needed.
	A // It is needed.
	x, y, z, w int
}
`
)

// fields returns a struct with n fields.
func fields(n int) string {
	return "struct {\n" + strings.Repeat("\ta, b int\n", n/2) + strings.Repeat("\tint\n", n%2) + "}\n"
}

// methods returns methods with the names name0, name1, ...
func methods(receiver, name string, n int) (text string) {
	for i := range n {
		text += fmt.Sprintf("func (r %s) %s%d() {}\n", receiver, name, i)
	}
	return text
}

// variant returns a struct with n fields, those of shared, and 13 methods.
func variant(name string, n int) string {
	body := strings.TrimPrefix(fields(n), "struct {\n")
	return "type " + name + " struct {\n\tshared // It is needed.\n" + body + methods(name, "m", 13)
}

func seven(format string) (text string) {
	for i := range 7 {
		text += fmt.Sprintf(format, i)
	}
	return text
}

func TestCheck(t *testing.T) {
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
		why: "a struct has 20 fields at most, unless structs.txt gives a reason; those of tests may have more",
		files: map[string]string{
			"a/a.go":          "package a\n\ntype A " + fields(20) + "\ntype B " + fields(21) + "\ntype C " + fields(21),
			"a/a_test.go":     "package a\n\ntype D " + fields(21),
			"examples/b/b.go": "package b\n\ntype (\n\tE " + fields(21) + ")\n",
		},
		wide: "# comment\n\na.C: it is a record",
		want: []string{
			"a/a.go:16:6: a.B has 21 fields and 0 methods with what it embeds, 20 and 25 at most: " + split,
			"examples/b/b.go:4:2: examples/b.E has 21 fields and 0 methods with what it embeds, 20 and 25 at most: " + split,
		},
	}, {
		why: "a struct has 25 methods at most, in whatever file",
		files: map[string]string{
			"a/a.go": "package a\n\ntype A[T any] struct{}\ntype B struct{}\n" +
				methods("A[T]", "m", 13) + methods("*B", "m", 25),
			"a/b.go":      "package a\n" + methods("*A[_]", "n", 13),
			"a/a_test.go": "package a\n" + methods("B", "n", 13),
		},
		want: []string{"a/a.go:3:6: a.A has 0 fields and 26 methods with what it embeds, 20 and 25 at most: " + split},
	}, {
		why: "a local struct and one in a field have 20 fields at most, with what they embed",
		files: map[string]string{
			"a/a.go": "package a\n\ntype A struct {\n\tx " + fields(21) + "\ty " + fields(20) + "}\n",
			"a/b.go": "package a\n\ntype B " + fields(20) + "\nfunc f() {\n\ttype local struct {\n" +
				"\t\tB // It is needed.\n\t\tx int\n\t}\n}\n",
			"a/a_test.go": "package a\n\nvar _ " + fields(21),
		},
		want: []string{
			"a/a.go:4:4: a struct without a top-level name has 21 fields and 0 methods with what it embeds, " +
				"20 and 25 at most: " + split,
			"a/b.go:17:13: a struct without a top-level name has 21 fields and 0 methods with what it embeds, " +
				"20 and 25 at most: " + split,
		},
	}, {
		why: "any type has 25 methods at most; one defined from a struct has its fields, but not its methods",
		files: map[string]string{
			"a/a.go": "package a\n\ntype Map map[int]int\ntype Func func()\ntype Few []int\n" +
				"type Server base\ntype Other base\n" + methods("Map", "m", 26) + methods("Func", "m", 26) +
				methods("Few", "m", 25) + methods("*Server", "m", 26) + methods("Other", "m", 13),
			"a/b.go": "package a\n\ntype base " + fields(11) + methods("base", "n", 13),
		},
		want: []string{
			"a/a.go:4:6: a.Func has 0 fields and 26 methods with what it embeds, 20 and 25 at most: " + split,
			"a/a.go:3:6: a.Map has 0 fields and 26 methods with what it embeds, 20 and 25 at most: " + split,
			"a/a.go:6:6: a.Server has 11 fields and 26 methods with what it embeds, 20 and 25 at most: " + split,
		},
	}, {
		why: "the methods of all names of a type count together, and an unnamed struct with another name is a struct",
		files: map[string]string{
			"a/a.go": "package a\n\ntype T struct{}\ntype U = T\ntype V = *U\ntype X = " + fields(21) +
				methods("T", "m", 10) + methods("U", "n", 10) + methods("V", "o", 6),
			"b/b.go": "package b\n\ntype Circle = Other\ntype Other = Circle\n",
		},
		want: []string{
			"a/a.go:3:6: a.T has 0 fields and 26 methods with what it embeds, 20 and 25 at most: " + split,
			"a/a.go:6:6: a.X has 21 fields and 0 methods with what it embeds, 20 and 25 at most: " + split,
		},
	}, {
		why: "of a type with a file for each system the larger counts, and a method once",
		files: map[string]string{
			"a/a.go":         "package a\n\ntype shared " + fields(8) + methods("A", "n", 12) + methods("B", "n", 13),
			"a/a_linux.go":   "package a\n\n" + variant("A", 12) + variant("B", 14),
			"a/a_windows.go": "package a\n\n" + variant("A", 10) + variant("B", 12),
		},
		want: []string{
			"a/a_windows.go:24:6: a.B has 22 fields and 26 methods with what it embeds, 20 and 25 at most: " + split,
		},
	}, {
		why: "a package of this repository is not imported with a dot, which hides what is embedded; tests may",
		files: map[string]string{
			"a/a.go":      "package a\n\nimport . \"github.com/gvrwatch/gvrwatch/b\"\nimport . \"math\"\n",
			"a/a_test.go": "package a\n\nimport . \"github.com/gvrwatch/gvrwatch/b\"\n",
		},
		want: []string{"a/a.go:3:8: imports github.com/gvrwatch/gvrwatch/b with a dot: remove the dot"},
	}, {
		why: "what a struct embeds counts as its own, through packages, pointers, other names and type arguments",
		files: map[string]string{
			"a.go":            "package gvrwatch\n\ntype Root " + fields(8),
			"a/a.go":          "package a\n\ntype A[T any] " + fields(6) + methods("A[T]", "m", 12) + "type Alias = A[int]\n",
			"a/not.go":        "package a\n\ntype List []int\n" + methods("List", "m", 13),
			"examples/b/b.go": wideB,
		},
		want: []string{
			"examples/b/b.go:9:6: examples/b.B has 21 fields and 26 methods with what it embeds, 20 and 25 at most: " + split,
		},
	}, {
		why:   "what is embedded twice counts once, and as one field the second time",
		files: map[string]string{"a/a.go": "package a\n\n" + twice},
		want:  []string{"a/a.go:8:6: a.D has 22 fields and 0 methods with what it embeds, 20 and 25 at most: " + split},
	}, {
		why:   "a line of structs.txt is for one struct that needs it",
		files: map[string]string{"a/a.go": "package a\n\ntype A " + fields(20) + "\ntype B " + fields(21)},
		wide:  "a.A: it was a record\na.B: it is a record\nb.C: it was there",
		want: []string{
			".ci/house/structs.txt: a.A needs no permission: remove the line",
			".ci/house/structs.txt: b.C needs no permission: remove the line",
		},
	}, {
		why:   "structs.txt has six lines at most",
		files: map[string]string{"a/a.go": "package a\n" + seven("\ntype T%d "+fields(21))},
		wide:  seven("a.T%d: it is a record\n"),
		want:  []string{".ci/house/structs.txt: 7 types, 6 at most"},
	}, {
		why: "two structs do not hold each other, whatever is between them",
		files: map[string]string{
			"a/a.go": `package a

import "github.com/gvrwatch/gvrwatch/b"

type (
	Pointer  struct{ x *holder }
	Slice    struct{ x []holder }
	Array    struct{ x [2]holder }
	Key      struct{ x map[holder]int }
	Element  struct{ x map[int]holder }
	Chan     struct{ x <-chan (holder) }
	Argument struct{ x sync.Map[int, atomic.Pointer[holder]] }
	Unnamed  struct{ x struct{ y *holder } }
	List     struct{ x list }
	Embedded struct {
		part // It is shared.
	}
	Package struct{ x *b.B }
	list    []*holder
	part    struct{ x *holder }
)

type holder struct {
	a *Pointer; b *Slice; c *Array; d *Key; e *Element; f *Chan; g *Argument; h *Unnamed; i *List; j *Embedded
}
`,
			"b/b.go": "package b\n\nimport other \"github.com/gvrwatch/gvrwatch/a\"\n\ntype B struct{ x *other.Package }\n",
		},
		want: []string{
			"a/a.go:12:2: a.Argument and a.Array and a.Chan and a.Element and a.Embedded and a.Key and a.List and a.Pointer " +
				"and a.Slice and a.Unnamed and a.holder and a.part" + eachOther,
			"a/a.go:18:2: a.Package and b.B" + eachOther,
		},
	}, {
		why: "structs do not hold each other in a longer circle, in which a type may be defined from a struct",
		files: map[string]string{"a/a.go": `package a

type A struct{ wrap wrap }
type wrap struct {
	box[B] // It is needed.
}
type box[T any] struct{ t T }
type B struct{ a *A }

type C struct{ d D }
type D E
type E (struct{ c *C })

type F struct{ g *G }
type G F
type H struct{ a *A }
`},
		want: []string{
			"a/a.go:3:6: a.A and a.B and a.wrap" + eachOther,
			"a/a.go:10:6: a.C and a.E" + eachOther,
		},
	}, {
		why: "a struct may hold itself, and functions, interfaces, type parameters and tests do not hold",
		files: map[string]string{
			"a/a.go": `package a

type A struct {
	a     *A
	nodes nodes
	b     *B
	p     box[int]
	t     *T
}
type nodes []*A
type B struct {
	f func(*A) *A
	i interface{ F(*A) }
	n named
	A int
	s other.A
}
type named func(*A)
type box[T any] struct{ t T }
type T struct{ p box[int] }
`,
			"a/a_test.go": "package a\n\ntype B struct{ a *A }\n",
		},
	}, {
		why: "an embedded struct of this repository needs a comment beside it, also in a local or unnamed struct",
		files: map[string]string{
			"a/a.go": `package a

import "github.com/gvrwatch/gvrwatch/b"

type A struct {
	// B is what A is.
	b.B
	C // C is what A is, too.

	*D
	// A comment above an empty line is not beside it.

	b.Alias
	*E[int]
	list
	sync.Mutex
	iface
	d D
}
type C struct{}
type D struct{}
type E[T any] struct{}
type list []int
type iface interface{ F() }

func f() {
	type local struct{ C }
	_ = struct{ D }{}
}
`,
			"a/a_test.go": "package a\n\ntype T struct{ C }\n",
			"b/b.go":      "package b\n\ntype B struct{}\ntype Alias = B\n",
		},
		want: []string{
			"a/a.go:10:2: embeds a.D" + bareEmbed, "a/a.go:13:2: embeds b.Alias" + bareEmbed,
			"a/a.go:14:2: embeds a.E" + bareEmbed, "a/a.go:27:21: embeds a.C" + bareEmbed,
			"a/a.go:28:14: embeds a.D" + bareEmbed,
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
		wordsFile:   {"FILE WORD: REASON", []string{"a.go told", "a.go told: ", "a.go: reason", "a.go told lane: reason"}},
		structsFile: {"TYPE: REASON", []string{"a.T", "a.T: ", "a.T 21: reason", ": reason"}},
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
