package doctest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"go/version"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../../.."

// documents returns all Markdown files of the repository.
func documents(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 3 {
		t.Fatalf("found only %q", files)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fragment is a Go fragment of a document.
type fragment struct {
	file string
	line int // of its first line
	text string
}

// fence matches a block of Go, also one that is not quite marked as Go.
var fence = regexp.MustCompile("(?ms)^```[gG]o[a-z]*\n(.*?)^```$")

func fragments(t *testing.T, file string) []fragment {
	t.Helper()
	var all []fragment
	text := read(t, file)
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		all = append(all, fragment{file, 1 + strings.Count(text[:at[2]], "\n"), text[at[2]:at[3]]})
	}
	return all
}

// imports are the packages that a fragment without an import declaration may use.
var imports = map[string]string{
	"apierrors":        "k8s.io/apimachinery/pkg/api/errors",
	"appsv1":           "k8s.io/api/apps/v1",
	"cache":            "k8s.io/client-go/tools/cache",
	"checkpoint":       "github.com/gvrwatch/gvrwatch/checkpoint",
	"condition":        "github.com/gvrwatch/gvrwatch/stream/condition",
	"configmap":        "github.com/gvrwatch/gvrwatch/checkpoint/configmap",
	"context":          "context",
	"controller":       "github.com/gvrwatch/gvrwatch/stream/controller",
	"corev1":           "k8s.io/api/core/v1",
	"ctrl":             "sigs.k8s.io/controller-runtime",
	"ctrlcache":        "sigs.k8s.io/controller-runtime/pkg/cache",
	"discovery":        "github.com/gvrwatch/gvrwatch/discovery",
	"dynamic":          "k8s.io/client-go/dynamic",
	"dynamicfake":      "k8s.io/client-go/dynamic/fake",
	"dynamicinformer":  "k8s.io/client-go/dynamic/dynamicinformer",
	"errors":           "errors",
	"exec":             "os/exec",
	"factory":          "github.com/gvrwatch/gvrwatch/stream/informer/factory",
	"fields":           "k8s.io/apimachinery/pkg/fields",
	"file":             "github.com/gvrwatch/gvrwatch/checkpoint/file",
	"fmt":              "fmt",
	"follow":           "github.com/gvrwatch/gvrwatch/mux/follow",
	"gvr":              "github.com/gvrwatch/gvrwatch/gvr",
	"gvrwatch":         "github.com/gvrwatch/gvrwatch",
	"handler":          "sigs.k8s.io/controller-runtime/pkg/handler",
	"http":             "net/http",
	"informer":         "github.com/gvrwatch/gvrwatch/stream/informer",
	"json":             "encoding/json",
	"log":              "log",
	"manager":          "sigs.k8s.io/controller-runtime/pkg/manager",
	"metadata":         "k8s.io/client-go/metadata",
	"metadatainformer": "k8s.io/client-go/metadata/metadatainformer",
	"metrics":          "github.com/gvrwatch/gvrwatch/examples/metrics",
	"metav1":           "k8s.io/apimachinery/pkg/apis/meta/v1",
	"mux":              "github.com/gvrwatch/gvrwatch/mux",
	"os":               "os",
	"prometheus":       "github.com/prometheus/client_golang/prometheus",
	"promhttp":         "github.com/prometheus/client_golang/prometheus/promhttp",
	"reconcile":        "sigs.k8s.io/controller-runtime/pkg/reconcile",
	"rest":             "k8s.io/client-go/rest",
	"runtime":          "k8s.io/apimachinery/pkg/runtime",
	"slices":           "slices",
	"store":            "github.com/gvrwatch/gvrwatch/stream/store",
	"stream":           "github.com/gvrwatch/gvrwatch/stream",
	"streamtest":       "github.com/gvrwatch/gvrwatch/stream/streamtest",
	"testing":          "testing",
	"time":             "time",
	"unstructured":     "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured",
	"watch":            "k8s.io/apimachinery/pkg/watch",
	"watchtools":       "k8s.io/client-go/tools/watch",
}

// given is what statements may use without declaring it.
const given = `func _(ctx context.Context, cfg *rest.Config, client dynamic.Interface, resource gvr.Resource,
	resolver *discovery.Resolver, handle func(stream.Event) error) (err error) {
`

// source returns the fragment as a Go file. Errors are reported at the lines of the document.
func (f fragment) source() string {
	line := func(n int) string { return fmt.Sprintf("//line %s:%d\n", filepath.Base(f.file), n) }
	parses := func(text string) bool {
		_, err := parser.ParseFile(token.NewFileSet(), "", text, parser.SkipObjectResolution)
		return err == nil
	}
	text := line(f.line) + f.text
	switch {
	case parses(text):
		return text
	case parses("package p\n" + text):
	default:
		text = given + text + "return err\n}\n"
	}
	header := "package p\n"
	if strings.Contains(text, "\nimport ") {
		return header + text
	}
	file, _ := parser.ParseFile(token.NewFileSet(), "", header+text, 0)
	if file == nil {
		return header + text
	}
	for _, name := range file.Unresolved {
		if path := imports[name.Name]; path != "" && !strings.Contains(header, "import "+name.Name+" ") {
			header += fmt.Sprintf("import %s %q\n", name.Name, path)
		}
	}
	return header + text
}

// TestFragmentsCompile: each Go fragment is a file, declarations, or statements that may use what is given, and has no
// error of syntax or type. gofmt would not change it.
func TestFragmentsCompile(t *testing.T) {
	var all []fragment
	for _, file := range documents(t) {
		all = append(all, fragments(t, file)...)
	}
	if len(all) == 0 {
		t.Error("found no fragments")
	}
	for _, err := range check(t, all) {
		t.Error(err)
	}
	for _, f := range all {
		if formatted, err := format.Source([]byte(f.text)); err == nil && string(formatted) != f.text {
			t.Errorf("%s:%d: gofmt would change it to:\n%s", filepath.Base(f.file), f.line, formatted)
		}
	}
}

// TestBadFragmentsAreFound: what is wrong with a fragment is reported at its line in the document.
func TestBadFragmentsAreFound(t *testing.T) {
	bad := []struct{ text, want, why string }{
		{"var o = stream.Options{NoSuchOption: true}\n", "x.md:7: unknown field NoSuchOption", "a declaration"},
		{"s, err := stream.New(client, resource, nil)\n", "x.md:7: declared and not used: s", "statements"},
		{"x := := 1\n", "x.md:7: expected operand", "no Go"},
		{"package main\n\nfunc main() { run() }\n", "x.md:9: undefined: run", "a whole file"},
		{"package main\n\nimport \"fmt\"\n", "x.md:9: \"fmt\" imported and not used", "an import"},
		{"package main\n\nimport _ \"example.com/no\"\n", "example.com/no", "an import of nothing"},
	}
	for _, tt := range bad {
		got := fmt.Sprint(check(t, []fragment{{"x.md", 7, tt.text}}))
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %s", tt.why, got, tt.want)
		}
	}
}

// check parses and type-checks fragments, each as a package.
func check(t *testing.T, all []fragment) (errs []error) {
	t.Helper()
	set, paths := token.NewFileSet(), map[string]bool{}
	var files []*ast.File
	for i, f := range all {
		file, err := parser.ParseFile(set, fmt.Sprint("fragment", i, ".go"), f.source(), parser.SkipObjectResolution)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, one := range file.Imports {
			path, _ := strconv.Unquote(one.Path.Value)
			paths[path] = true
		}
		files = append(files, file)
	}
	compiled := exports(t, slices.Sorted(maps.Keys(paths)))
	config := types.Config{
		Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
			if compiled[path] == "" {
				return nil, errors.New("no such package")
			}
			return os.Open(compiled[path])
		}),
		Error: func(err error) { errs = append(errs, err) },
	}
	for _, file := range files {
		_, _ = config.Check("p", set, []*ast.File{file}, nil) // Error has received the errors
	}
	return errs
}

// exports returns the files that the compiler has written for packages and what they import.
func exports(t *testing.T, paths []string) map[string]string {
	t.Helper()
	files := map[string]string{}
	if len(paths) == 0 {
		return files
	}
	list := exec.CommandContext(t.Context(), "go",
		append([]string{"list", "-e", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "--"}, paths...)...)
	workspace, err := filepath.Abs(filepath.Join(root, "go.work")) // finds what only the examples need, too
	if err != nil {
		t.Fatal(err)
	}
	_, needs, _ := strings.Cut(read(t, workspace), "go ") // the first directive
	if needs = "go" + strings.Fields(needs)[0]; version.Compare(runtime.Version(), needs) < 0 {
		t.Skipf("the examples, which some fragments import, need %s", needs)
	}
	list.Env = append(os.Environ(), "GOWORK="+workspace)
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files
}
