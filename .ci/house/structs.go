package main

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	module     = "github.com/gvrwatch/gvrwatch"
	maxFields  = 20 // of a struct, with all that it embeds
	maxMethods = 25 // of a struct, with all that it embeds
	maxWide    = 6  // lines of structsFile
)

// A declared type is a top-level type of this repository, tests excepted. Its name is "folder.Name".
type declared struct {
	pos       string
	structure bool
	fields    int // that have a name; one of an unnamed struct type counts as one
	methods   int
	embeds    []string // also B of "type A B" and "type A = B"
	holds     []string // what its fields, elements and keys are, behind any pointer, slice, map or channel
}

// A bare embed has no comment beside it. Its type need not be a struct of this repository.
type bare struct{ pos, name string }

// A source is a Go file, as far as names of types depend on it.
type source struct {
	folder  string
	imports map[string]string // folders of this repository, by the name in the file
}

// structs collects the types of a file.
func (r *report) structs(folder string, files *token.FileSet, f *ast.File) {
	s := source{folder, map[string]string{}}
	for _, spec := range f.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if rest, ok := strings.CutPrefix(imported+"/", module+"/"); ok {
			name := path.Base(imported)
			if spec.Name != nil {
				name = spec.Name.Name
			}
			s.imports[name] = path.Clean(rest)
		}
	}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				r.typ(s.named(decl.Recv.List[0].Type)).methods++
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					r.typ(s.named(spec.Name)).declare(s, files.Position(spec.Pos()).String(), spec)
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if structure, ok := n.(*ast.StructType); ok {
			for _, field := range structure.Fields.List {
				if len(field.Names) == 0 && field.Doc.Text()+field.Comment.Text() == "" {
					r.bare = append(r.bare, bare{files.Position(field.Pos()).String(), s.named(field.Type)})
				}
			}
		}
		return true
	})
}

// declare adds what one declaration says; a file for another system may have another.
func (t *declared) declare(s source, pos string, spec *ast.TypeSpec) {
	t.pos = pos
	t.holds = append(t.holds, s.held(spec)...)
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		if same := s.named(spec.Type); same != "" {
			t.embeds = append(t.embeds, same)
		}
		return
	}
	t.structure = true
	for _, field := range structure.Fields.List {
		t.fields += len(field.Names)
		if len(field.Names) == 0 {
			t.embeds = append(t.embeds, s.named(field.Type))
		}
	}
}

func (r *report) typ(name string) *declared {
	if r.types[name] == nil {
		r.types[name] = &declared{}
	}
	return r.types[name]
}

// named returns the name of a type behind pointers and type arguments, "" if it is of another module.
func (s source) named(e ast.Expr) string {
	folder := s.folder
	switch t := e.(type) {
	case *ast.ParenExpr:
		return s.named(t.X)
	case *ast.StarExpr:
		return s.named(t.X)
	case *ast.IndexExpr:
		return s.named(t.X)
	case *ast.IndexListExpr:
		return s.named(t.X)
	case *ast.SelectorExpr:
		x, _ := t.X.(*ast.Ident)
		if x == nil || s.imports[x.Name] == "" {
			return ""
		}
		folder, e = s.imports[x.Name], t.Sel
	}
	name, ok := e.(*ast.Ident)
	if !ok {
		return ""
	}
	return strings.TrimPrefix(folder+"."+name.Name, ".") // ".Name" in the root
}

// held returns the types that a declared type is made of, but not those that its functions and interfaces mention.
func (s source) held(spec *ast.TypeSpec) (names []string) {
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType, *ast.InterfaceType:
			return false
		case *ast.Field:
			ast.Inspect(n.Type, visit)
			return false
		case *ast.SelectorExpr:
			names = append(names, s.named(n))
			return false
		case *ast.Ident:
			names = append(names, s.named(n))
		}
		return true
	}
	ast.Inspect(spec.Type, visit)
	if spec.TypeParams != nil {
		for _, parameter := range spec.TypeParams.List {
			for _, p := range parameter.Names {
				names = slices.DeleteFunc(names, func(name string) bool { return name == s.named(p) })
			}
		}
	}
	return names
}

// judgeStructs reports the structs that are too wide, that hold each other, and that embed one without a reason.
func (r *report) judgeStructs() {
	var names []string
	for name, t := range r.types {
		if t.structure {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	holds := map[string]map[string]bool{}
	for _, name := range names {
		holds[name] = r.held(name)
	}
	for _, name := range names {
		t := r.types[name]
		fields, methods := r.flat(name, map[string]bool{})
		if (fields > maxFields || methods > maxMethods) && !r.mayBeWide(name) {
			r.problem("%s: %s has %d fields and %d methods with what it embeds, %d and %d at most: "+
				"split it, or give a reason in %s", t.pos, name, fields, methods, maxFields, maxMethods, structsFile)
		}
		for _, other := range slices.Sorted(maps.Keys(holds[name])) {
			if name < other && holds[other][name] {
				r.problem("%s: %s and %s hold each other: "+
					"give one of them a function or a part of the other", t.pos, name, other)
			}
		}
	}
	for _, b := range r.bare {
		if r.isStruct(b.name) {
			r.problem("%s: embeds %s without a comment: name the field, or give the reason beside it", b.pos, b.name)
		}
	}
	if n := len(r.wide); n > maxWide {
		r.problem("%s: %d structs, %d at most", structsFile, n, maxWide)
	}
	for _, w := range r.wide {
		if !w.used {
			r.problem("%s: %s needs no permission: remove the line", structsFile, w.name)
		}
	}
}

// isStruct reports whether a type is a struct of this repository, under whatever name.
func (r *report) isStruct(name string) bool {
	t := r.types[name]
	return t != nil && (t.structure || len(t.embeds) == 1 && r.isStruct(t.embeds[0]))
}

// flat counts the fields and methods of a type and of all that it embeds, each once.
func (r *report) flat(name string, seen map[string]bool) (fields, methods int) {
	t := r.types[name]
	if t == nil || seen[name] {
		return 1, 0
	}
	seen[name] = true
	if !r.isStruct(name) {
		return 1, t.methods
	}
	fields, methods = t.fields, t.methods
	for _, e := range t.embeds {
		f, m := r.flat(e, seen)
		fields, methods = fields+f, methods+m
	}
	return fields, methods
}

// held returns what a struct holds, also in what it embeds and in types that are no structs.
func (r *report) held(name string) map[string]bool {
	held, seen := map[string]bool{}, map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		t := r.types[name]
		if t == nil || seen[name] {
			return
		}
		seen[name] = true
		for _, other := range t.holds {
			held[other] = true
			if slices.Contains(t.embeds, other) || r.types[other] != nil && !r.types[other].structure {
				visit(other)
			}
		}
	}
	visit(name)
	return held
}

// wide is a struct that may have more fields and methods, for a reason.
type wide struct {
	name string
	used bool
}

// readWide parses lines such as "mux/follow.Mux: it is a Mux, and more".
func readWide(repo fs.FS, name string) (list []*wide, err error) {
	err = readEntries(repo, name, "TYPE: REASON", func(parts []string) bool {
		if len(parts) != 1 {
			return false
		}
		list = append(list, &wide{name: parts[0]})
		return true
	})
	return list, err
}

func (r *report) mayBeWide(name string) bool {
	for _, w := range r.wide {
		if w.name == name {
			w.used = true
			return true
		}
	}
	return false
}
