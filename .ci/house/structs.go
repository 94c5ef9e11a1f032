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
	maxFields  = 20 // of a type, with all that it embeds
	maxMethods = 25 // of a type, with all that it embeds
	maxWide    = 6  // lines of structsFile
	local      = ": a struct without a top-level name"
)

// A declared type is a type of this repository, tests excepted. Its name is "folder.Name", or, without one at the
// top level, its position and local. Files for several systems may declare it several times.
//
// Only declarations are read, so the rules do not see what a type reaches through a function, an interface or any, the
// methods of an embedded interface, and a package whose name is not that of its folder.
type declared struct {
	pos       string // "" if it is but another name of a type
	structure bool
	fields    int // without embeds; the most of one declaration; one of an unnamed struct type counts as one
	methods   map[string]bool
	embeds    []string // types of this repository, of all declarations
	same      string   // B of "type A B" and "type A = B"
	holds     []string // what its fields, elements and keys are, behind any pointer, slice, map or channel
}

func (t *declared) isStruct() bool  { return t.structure }
func (t *declared) isDefined() bool { return t.pos != "" }

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
			if name == "." {
				r.problem("%s: imports %s with a dot: remove the dot", files.Position(spec.Pos()), imported)
			}
			s.imports[name] = path.Clean(rest)
		}
	}
	named := map[ast.Expr]bool{}
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				r.typ(s.named(decl.Recv.List[0].Type)).methods[decl.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok {
					r.typ(s.named(spec.Name)).declare(s, files.Position(spec.Pos()).String(), spec)
					named[ast.Unparen(spec.Type)] = true
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if structure, ok := n.(*ast.StructType); ok {
			if pos := files.Position(n.Pos()).String(); !named[structure] {
				r.typ(pos+local).declare(s, pos, &ast.TypeSpec{Type: structure})
			}
			for _, field := range structure.Fields.List {
				if len(field.Names) == 0 && field.Doc.Text()+field.Comment.Text() == "" {
					r.bare = append(r.bare, bare{files.Position(field.Pos()).String(), s.named(field.Type)})
				}
			}
		}
		return true
	})
}

// declare adds what one declaration says.
func (t *declared) declare(s source, pos string, spec *ast.TypeSpec) {
	t.holds = append(t.holds, s.held(spec)...)
	structure, ok := ast.Unparen(spec.Type).(*ast.StructType)
	if ok || !spec.Assign.IsValid() {
		t.pos = pos
	}
	if !ok {
		t.same = s.named(spec.Type)
		return
	}
	t.structure = true
	fields := 0
	for _, field := range structure.Fields.List {
		fields += len(field.Names)
		if len(field.Names) == 0 {
			if name := s.named(field.Type); name == "" {
				fields++
			} else if !slices.Contains(t.embeds, name) {
				t.embeds = append(t.embeds, name)
			}
		}
	}
	t.fields = max(t.fields, fields)
}

func (r *report) typ(name string) *declared {
	if r.types[name] == nil {
		r.types[name] = &declared{methods: map[string]bool{}}
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

// judgeStructs reports types that are too wide, structs that hold each other, and embedded structs without a reason.
func (r *report) judgeStructs() {
	for name, t := range r.types {
		if original := r.find(name, (*declared).isDefined); original != nil {
			maps.Copy(original.methods, t.methods)
		}
	}
	names := slices.Sorted(maps.Keys(r.types))
	reached := map[string]map[string]bool{}
	for _, name := range names {
		reached[name] = map[string]bool{}
		r.reach(name, reached[name])
	}
	for _, name := range names {
		t := r.types[name]
		fields, methods := r.flat(name, map[*declared]bool{})
		if t.isDefined() && (fields > maxFields || methods > maxMethods) && !r.mayBeWide(name) {
			r.problem("%s: %s has %d fields and %d methods with what it embeds, %d and %d at most: "+
				"split it, or give a reason in %s",
				t.pos, strings.TrimPrefix(name, t.pos+": "), fields, methods, maxFields, maxMethods, structsFile)
		}
		var cycle []string
		for _, other := range names {
			if r.types[other].structure && reached[name][other] && reached[other][name] {
				cycle = append(cycle, other)
			}
		}
		if len(cycle) > 1 && cycle[0] == name {
			r.problem("%s: %s hold each other: give one of them a function or a part of the other",
				t.pos, strings.Join(cycle, " and "))
		}
	}
	for _, b := range r.bare {
		if r.find(b.name, (*declared).isStruct) != nil {
			r.problem("%s: embeds %s without a comment: name the field, or give the reason beside it", b.pos, b.name)
		}
	}
	if n := len(r.wide); n > maxWide {
		r.problem("%s: %d types, %d at most", structsFile, n, maxWide)
	}
	for _, w := range r.wide {
		if !w.used {
			r.problem("%s: %s needs no permission: remove the line", structsFile, w.name)
		}
	}
}

// find follows "type A B" and "type A = B" up to a type that is such, nil if none is.
func (r *report) find(name string, such func(*declared) bool) *declared {
	for range r.types { // No more steps, even if two systems define two types by each other.
		t := r.types[name]
		if t == nil || such(t) {
			return t
		}
		name = t.same
	}
	return nil
}

// flat counts the fields and methods of a type and of all that it embeds, each once, but each as one field at least.
func (r *report) flat(name string, seen map[*declared]bool) (fields, methods int) {
	t := r.find(name, (*declared).isDefined)
	if t == nil || seen[t] {
		return 0, 0
	}
	seen[t] = true
	methods = len(t.methods)
	if structure := r.find(name, (*declared).isStruct); structure != nil {
		fields = structure.fields
		for _, e := range structure.embeds {
			f, m := r.flat(e, seen)
			fields, methods = fields+max(f, 1), methods+m
		}
	}
	return fields, methods
}

// reach adds all that a type holds, also in what it holds.
func (r *report) reach(name string, reached map[string]bool) {
	for _, other := range r.types[name].holds {
		if r.types[other] != nil && !reached[other] {
			reached[other] = true
			r.reach(other, reached)
		}
	}
}

// wide is a type that may have more fields and methods, for a reason.
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
