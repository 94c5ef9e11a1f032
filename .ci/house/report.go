package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A report is what check found.
type report struct {
	packages map[string]*shape
	types    map[string]*declared
	bare     []bare
	problems []string
	allowed  []*allowance
	wide     []*wide
}

// A shape is the size of one package.
type shape struct {
	lines    int // without tests
	tests    int // lines
	exported int // top-level names
}

func (r *report) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%-32s %7s %7s %9s\n", "package", "lines", "tests", "exported")
	for _, folder := range slices.Sorted(maps.Keys(r.packages)) {
		s := r.packages[folder]
		fmt.Fprintf(w, "%-32s %7d %7d %9d\n", folder, s.lines, s.tests, s.exported)
	}
	for _, p := range r.problems {
		fmt.Fprintln(w, p)
	}
	fmt.Fprintln(w, "problems:", len(r.problems))
}

// file measures one file.
func (r *report) file(name, text string) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range lines {
		r.words(name, i+1, line)
	}
	if path.Ext(name) != ".go" {
		return nil
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	r.columns(name, lines)
	folder := path.Dir(name)
	s := r.packages[folder]
	if s == nil {
		s = &shape{}
		r.packages[folder] = s
	}
	if strings.HasSuffix(name, "_test.go") {
		s.tests += strings.Count(text, "\n")
		return nil
	}
	s.lines += strings.Count(text, "\n")
	s.exported += exported(f)
	r.imports(name, folder, f)
	r.structs(folder, files, f)
	if folder == "examples" || strings.HasPrefix(folder, "examples/") {
		return nil
	}
	if len(lines) > maxLines {
		r.problem("%s: %d lines, %d at most: split it", name, len(lines), maxLines)
	}
	return nil
}

func (r *report) columns(name string, lines []string) {
	for i, line := range lines {
		// Bytes, so that a character outside ASCII counts as several columns.
		if n := len(line) + (tabColumns-1)*strings.Count(line, "\t"); n > maxColumns {
			r.problem("%s:%d: %d columns, %d at most", name, i+1, n, maxColumns)
		}
	}
}

// exported counts the functions, types, constants and variables that others can name.
func exported(f *ast.File) (names int) {
	count := func(name *ast.Ident) {
		if name.IsExported() {
			names++
		}
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				count(decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						count(name)
					}
				case *ast.TypeSpec:
					count(spec.Name)
				}
			}
		}
	}
	return names
}

// imports reports what a pure package must not import.
func (r *report) imports(name, folder string, f *ast.File) {
	allowed, ok := pure[folder]
	if !ok {
		return
	}
	for _, spec := range f.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		first, _, _ := strings.Cut(imported, "/")
		if strings.Contains(first, ".") && !slices.Contains(allowed, imported) {
			r.problem("%s: imports %s: %s may import the standard library and %s only",
				name, imported, folder, strings.Join(allowed, ", "))
		}
	}
}

// budgets reports packages that export too many names, and those that are gone.
func (r *report) budgets(list []budget) {
	exists := func(folder string) bool {
		if r.packages[folder] == nil {
			r.problem("%s: no such package: correct .ci/house/main.go", folder)
			return false
		}
		return true
	}
	for _, b := range list {
		names := 0
		for _, folder := range b.packages {
			if exists(folder) {
				names += r.packages[folder].exported
			}
		}
		if names > b.names {
			r.problem("%s: %d exported names, %d at most", strings.Join(b.packages, " + "), names, b.names)
		}
	}
	for folder := range pure {
		exists(folder)
	}
}
