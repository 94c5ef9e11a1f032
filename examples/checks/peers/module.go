package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// shims are our packages of the temporary module.
//
//go:embed testdata
var shims embed.FS

// module is the temporary module in which suites run.
type module struct {
	root    string // of it
	source  string // the root of the repository
	kube    string // the version of client-go, which is that of kubectl, too
	runtime string // the version of controller-runtime
}

// newModule makes a module in the folder root, with the requirements of module examples: its versions are the ones that
// the suites run with.
func newModule(ctx context.Context, root string) (*module, error) {
	examples, err := modules(ctx, ".", "list", "-m", "-json", "github.com/gvrwatch/gvrwatch/examples",
		clientGo, controllerRuntime)
	if err != nil {
		return nil, err
	}
	folder := examples[0].Dir
	m := &module{root: root, source: filepath.Dir(folder), kube: examples[1].Version, runtime: examples[2].Version}
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return nil, err
	}
	_, requirements, _ := bytes.Cut(text, []byte("\n"))
	requirements = bytes.Replace(requirements, []byte("=> .."), fmt.Appendf(nil, "=> %q", m.source), 1)
	text = fmt.Appendf(nil, "module %s\n%s\nrequire %s %s\nrequire %s v0.0.0\nreplace %[5]s => %[6]q\n",
		runModule, requirements, kubectl, m.kube, examples[0].Path, folder)
	sums, err := os.ReadFile(filepath.Join(folder, "go.sum"))
	if err != nil {
		return nil, err
	}
	return m, write(root, map[string][]byte{"go.mod": text, "go.sum": sums})
}

// goModule is what go list -m and go mod download say about a module.
type goModule struct{ Path, Version, Dir, Error string }

// modules runs a go command that prints modules.
func modules(ctx context.Context, folder string, args ...string) ([]goModule, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = folder
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s%s", strings.Join(args, " "), err, stderr.Bytes(), out)
	}
	var found []goModule
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var m goModule
		if err := d.Decode(&m); err != nil {
			return nil, fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
		found = append(found, m)
	}
	return found, nil
}

// version returns the version of a suite's module.
func (m *module) version(s suite) string {
	if s.module == controllerRuntime {
		return m.runtime
	}
	return m.kube
}

// add copies the files of a suite and its shim into the module. It returns the names of the suite's top-level tests.
func (m *module) add(ctx context.Context, s suite) ([]string, error) {
	found, err := modules(ctx, m.root, "mod", "download", "-json", s.module+"@"+m.version(s))
	if err != nil {
		return nil, err
	}
	from := filepath.Join(found[0].Dir, filepath.FromSlash(s.folder))
	files, err := read(os.DirFS(from), s.files)
	if err != nil {
		return nil, fmt.Errorf("copy %s of %s: %w", s.folder, s.module, err)
	}
	tests, err := testsOf(files)
	if err != nil {
		return nil, err
	}
	if len(s.helpers) > 0 {
		helpers, err := read(os.DirFS(from), s.helpers)
		if err != nil {
			return nil, fmt.Errorf("copy %s of %s: %w", s.folder, s.module, err)
		}
		maps.Copy(files, helpers)
	}
	if s.sources {
		if err := sources(from, files); err != nil {
			return nil, err
		}
	}
	for _, e := range s.edits {
		matched := false
		for name, text := range files {
			if strings.HasSuffix(name, e.suffix) && bytes.Contains(text, []byte(e.old)) {
				files[name], matched = bytes.ReplaceAll(text, []byte(e.old), []byte(e.new)), true
			}
		}
		if !matched {
			return nil, fmt.Errorf("edit suite %s: no file %q of theirs contains %q", s.name, "*"+e.suffix, e.old)
		}
	}
	if err := write(filepath.Join(m.root, s.name), files); err != nil || s.own == "" {
		return tests, err
	}
	own := map[string][]byte{}
	if err := sources(filepath.Join(m.source, s.own), own); err != nil {
		return nil, err
	}
	for name, text := range own {
		theirs, copied := fmt.Appendf(nil, "%q", s.module+"/"+s.folder), fmt.Appendf(nil, "%q", runModule+"/"+s.name)
		own[name] = bytes.ReplaceAll(text, theirs, copied)
	}
	return tests, write(filepath.Join(m.root, path.Base(s.own)), own)
}

// sources adds the Go files of a folder to files, without the tests.
func sources(folder string, files map[string][]byte) error {
	found, err := read(os.DirFS(folder), []string{"*.go"})
	if err != nil {
		return fmt.Errorf("copy %s: %w", folder, err)
	}
	for name, text := range found {
		if !strings.HasSuffix(name, "_test.go") {
			files[name] = text
		}
	}
	return nil
}

// addShims copies our packages into the module.
func (m *module) addShims() error {
	shim, err := fs.Sub(shims, "testdata")
	if err != nil {
		return err
	}
	files, err := read(shim, []string{"."})
	if err != nil {
		return err
	}
	return write(m.root, files)
}

// read returns the files whose paths match one of the patterns, with all in those that are folders.
func read(from fs.FS, patterns []string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, pattern := range patterns {
		roots, err := fs.Glob(from, pattern)
		if err != nil || len(roots) == 0 {
			return nil, fmt.Errorf("invalid pattern %q: must match a file: %w", pattern, err)
		}
		for _, root := range roots {
			err = fs.WalkDir(from, root, func(name string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					files[name], err = fs.ReadFile(from, name)
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// write writes files below a folder.
func write(folder string, files map[string][]byte) error {
	for name, text := range files {
		name = filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// testsOf returns the names of the top-level tests in files.
func testsOf(files map[string][]byte) ([]string, error) {
	var tests []string
	for name, text := range files {
		if path.Dir(name) != "." || !strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
				tests = append(tests, fn.Name.Name)
			}
		}
		for _, e := range doc.Examples(f) {
			if e.Output != "" {
				tests = append(tests, "Example"+e.Name)
			}
		}
	}
	slices.Sort(tests)
	return tests, nil
}

// test builds the tests of a suite and runs those that expected.txt does not leave out, each in a process of its own:
// one that panics, hangs or leaves goroutines says nothing about the others.
func (m *module) test(ctx context.Context, s suite, e expectation, tests []string) (run, error) {
	got := newRun()
	program := filepath.Join(m.root, s.name+".test")
	// What only their tests need is added to the temporary go.mod, in the versions that their go.mod has.
	build := exec.CommandContext(ctx, "go", "test", "-mod=mod", "-vet=off", "-p=1",
		"-race="+strconv.FormatBool(s.race), "-c", "-o", program, "./"+s.name)
	build.Dir = m.root
	build.Env = append(build.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return got, fmt.Errorf("build suite %s: %w\n%s", s.name, err, out)
	}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(processes)
	for _, test := range tests {
		if slices.ContainsFunc(e.leftOut, func(x expected) bool { return x.test == test }) {
			continue
		}
		g.Go(func() error {
			c := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", program, "-test.v=test2json",
				"-test.run=^"+test+"$", "-test.timeout=5m")
			c.Dir = filepath.Join(m.root, s.name)
			c.Env = append(c.Environ(), s.env...)
			out, err := c.Output()
			if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited || ctx.Err() != nil {
				return cmp.Or(context.Cause(ctx), err)
			}
			mu.Lock()
			defer mu.Unlock()
			return got.add(test, bytes.NewReader(out))
		})
	}
	return got, g.Wait()
}

// processes is how many tests run at a time. Most of their time they wait.
const processes = 3
