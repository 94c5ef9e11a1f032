// Command house checks the shape of the repository it is run in: exported names,
// long files and lines, types that are wide, structs that hold each other or embed one
// another without a reason, words that the glossary replaces, and the imports of
// internal/protocol. words.txt and structs.txt permit exceptions. It prints a table
// of all packages, then one line for each problem, and exits with 1 if there is any.
//
//	go run ./.ci/house          # from the root
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
)

// A budget limits the exported top-level names of some packages together.
type budget struct {
	packages []string
	names    int
}

var budgets = []budget{
	{[]string{"."}, 4}, // Watch, Connect, ConnectTo, Connection
	{[]string{"gvr"}, 4},
	{[]string{"discovery"}, 15},
	{[]string{"stream"}, 66}, // As; three more reasons of a GAP, and the state Unordered
	{[]string{"mux", "mux/follow"}, 31},
	{[]string{"checkpoint", "checkpoint/file", "checkpoint/configmap"}, 20},
	{[]string{"stream/informer", "stream/informer/factory"}, 9}, // NewCompact; the option Compact
	{[]string{"stream/store"}, 7},
	{[]string{"stream/controller"}, 10},
	{[]string{"stream/condition"}, 8},   // MustParse and New
	{[]string{"stream/streamtest"}, 11}, // CheckStore, for Stores of users
}

const (
	maxLines   = 400 // of a file of the library, tests excepted
	maxColumns = 120 // of a line of Go
	tabColumns = 4
)

// Packages that may import the standard library and the listed packages only.
var pure = map[string][]string{
	"internal/protocol": {"k8s.io/apimachinery/pkg/util/resourceversion"},
}

// Files with what check would reject, and why it is right.
const (
	wordsFile   = ".ci/house/words.txt"
	structsFile = ".ci/house/structs.txt"
)

func main() {
	r, err := check(os.DirFS("."), budgets)
	if err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(2)
	}
	r.print(os.Stdout)
	if len(r.problems) > 0 {
		os.Exit(1)
	}
}

// check measures all Go and Markdown files below repo.
func check(repo fs.FS, budgets []budget) (r *report, err error) {
	r = &report{packages: map[string]*shape{}, types: map[string]*declared{}}
	if r.allowed, err = readAllowed(repo, wordsFile); err != nil {
		return nil, err
	}
	if r.wide, err = readWide(repo, structsFile); err != nil {
		return nil, err
	}
	err = fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if ignored(d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if ext := path.Ext(name); ext != ".go" && ext != ".md" {
			return nil
		}
		text, err := fs.ReadFile(repo, name)
		if err != nil {
			return err
		}
		return r.file(name, string(text))
	})
	if err != nil {
		return nil, err
	}
	r.budgets(budgets)
	r.unusedWords()
	r.judgeStructs()
	return r, nil
}

func ignored(folder string) bool {
	return folder != "." && folder[0] == '.' || folder == "testdata" || folder == "vendor"
}
