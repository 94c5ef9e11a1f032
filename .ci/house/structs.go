package main

import (
	"cmp"
	"go/ast"
	"go/token"
	"io/fs"
	"strconv"
)

// A wide struct has more than maxFields fields for a reason.
type wide struct {
	file, name string
	fields     int
	used       bool
}

// readWide parses lines such as "stream/status.go Status 11: a flat report".
func readWide(repo fs.FS, name string) (list []*wide, err error) {
	err = readEntries(repo, name, "FILE TYPE FIELDS: REASON", func(parts []string) bool {
		if len(parts) != 3 {
			return false
		}
		fields, err := strconv.Atoi(parts[2])
		list = append(list, &wide{file: parts[0], name: parts[1], fields: fields})
		return err == nil
	})
	return list, err
}

// structs reports the struct types, named or not, with many fields and no reason.
func (r *report) structs(file string, files *token.FileSet, f *ast.File) {
	names := map[ast.Node]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			names[n.Type] = n.Name.Name
		case *ast.StructType:
			fields := 0
			for _, field := range n.Fields.List {
				fields += max(1, len(field.Names))
			}
			if fields > maxFields && !r.mayBeWide(file, names[n], fields) {
				r.problem("%s: %s has %d fields, %d at most: group them, or give a reason in %s",
					files.Position(n.Pos()), cmp.Or(names[n], "a struct"), fields, maxFields, structsFile)
			}
		}
		return true
	})
}

func (r *report) mayBeWide(file, name string, fields int) bool {
	for _, w := range r.wide {
		if w.file == file && w.name == name && w.fields == fields {
			w.used = true
			return true
		}
	}
	return false
}

// unusedWide reports entries of structs that are gone, or have another number of fields.
func (r *report) unusedWide() {
	for _, w := range r.wide {
		if !w.used {
			r.problem("%s: %s has no %s of %d fields: correct the line", structsFile, w.file, w.name, w.fields)
		}
	}
}
