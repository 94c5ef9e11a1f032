package zerotest

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch"
	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/checkpoint/configmap"
	"github.com/gvrwatch/gvrwatch/checkpoint/file"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/controller"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
	"github.com/gvrwatch/gvrwatch/stream/store"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// functions are the exported functions of the public packages. TestComplete names those that are missing.
var functions = map[string]any{
	".Connect": gvrwatch.Connect, ".ConnectTo": gvrwatch.ConnectTo, ".Watch": gvrwatch.Watch,
	"checkpoint.NewTracker": checkpoint.NewTracker, "checkpoint/configmap.Open": configmap.Open,
	"checkpoint/file.Open": file.Open,
	"discovery.NewClient":  discovery.NewClient, "discovery.NewResolver": discovery.NewResolver,
	"gvr.ParseRef": gvr.ParseRef, "mux.New": mux.New, "mux.PrefixOf": mux.PrefixOf, "mux.SourceOf": mux.SourceOf,
	"mux/follow.New": follow.New, "stream.Acked": stream.Acked, "stream.After": stream.After,
	"stream.As": stream.As[map[string]any], "stream.From": stream.From, "stream.InvolvedObject": stream.InvolvedObject,
	"stream.New": stream.New, "stream.NewClient": stream.NewClient, "stream.Now": stream.Now,
	"stream.Resume": stream.Resume, "stream.Until": stream.Until, "stream/condition.MustParse": condition.MustParse,
	"stream/condition.New": condition.New, "stream/condition.Parse": condition.Parse,
	"stream/condition.Wait": condition.Wait, "stream/controller.ControllerOf": controller.ControllerOf,
	"stream/controller.KeyOf": controller.KeyOf, "stream/controller.NewSource": controller.NewSource[controller.Key],
	"stream/controller.Run": controller.Run, "stream/informer.NewListerWatcher": informer.NewListerWatcher,
	"stream/informer.NewSharedIndexInformer": informer.NewSharedIndexInformer,
	"stream/informer.Watch":                  informer.Watch, "stream/informer/factory.New": factory.New,
	"stream/informer.NewCompact": informer.NewCompact, "stream/informer.Compact": informer.Compact,
	"stream/store.As": store.As[map[string]any], "stream/store.New": store.New,
	"stream/streamtest.Check": streamtest.Check, "stream/streamtest.CheckStore": streamtest.CheckStore,
	"stream/streamtest.NewServer": streamtest.NewServer, "stream/streamtest.Record": streamtest.Record,
}

// types are the exported types that are no interfaces. All their methods are called.
var types = map[string]reflect.Type{
	".Connection":                     reflect.TypeFor[gvrwatch.Connection](),
	"checkpoint.Checkpoint":           reflect.TypeFor[checkpoint.Checkpoint](),
	"checkpoint.Cluster":              reflect.TypeFor[checkpoint.Cluster](),
	"checkpoint.CorruptError":         reflect.TypeFor[checkpoint.CorruptError](),
	"checkpoint.Delta":                reflect.TypeFor[checkpoint.Delta](),
	"checkpoint.FencedError":          reflect.TypeFor[checkpoint.FencedError](),
	"checkpoint.Identity":             reflect.TypeFor[checkpoint.Identity](),
	"checkpoint.LockedError":          reflect.TypeFor[checkpoint.LockedError](),
	"checkpoint.Memory":               reflect.TypeFor[checkpoint.Memory](),
	"checkpoint.MismatchError":        reflect.TypeFor[checkpoint.MismatchError](),
	"checkpoint.Object":               reflect.TypeFor[checkpoint.Object](),
	"checkpoint.Options":              reflect.TypeFor[checkpoint.Options](),
	"checkpoint.Position":             reflect.TypeFor[checkpoint.Position](),
	"checkpoint.Status":               reflect.TypeFor[checkpoint.Status](),
	"checkpoint.Tracker":              reflect.TypeFor[checkpoint.Tracker](),
	"checkpoint/configmap.Options":    reflect.TypeFor[configmap.Options](),
	"checkpoint/file.Store":           reflect.TypeFor[file.Store](),
	"discovery.AmbiguousError":        reflect.TypeFor[discovery.AmbiguousError](),
	"discovery.Change":                reflect.TypeFor[discovery.Change](),
	"discovery.ChangeType":            reflect.TypeFor[discovery.ChangeType](),
	"discovery.NotFoundError":         reflect.TypeFor[discovery.NotFoundError](),
	"discovery.Resolver":              reflect.TypeFor[discovery.Resolver](),
	"discovery.UnavailableError":      reflect.TypeFor[discovery.UnavailableError](),
	"gvr.ParseError":                  reflect.TypeFor[gvr.ParseError](),
	"gvr.Ref":                         reflect.TypeFor[gvr.Ref](),
	"gvr.Resource":                    reflect.TypeFor[gvr.Resource](),
	"mux.Decision":                    reflect.TypeFor[mux.Decision](),
	"mux.Mux":                         reflect.TypeFor[mux.Mux](),
	"mux.Options":                     reflect.TypeFor[mux.Options](),
	"mux.Overflow":                    reflect.TypeFor[mux.Overflow](),
	"mux.SourceError":                 reflect.TypeFor[mux.SourceError](),
	"mux.SourceOptions":               reflect.TypeFor[mux.SourceOptions](),
	"mux.SourceStatus":                reflect.TypeFor[mux.SourceStatus](),
	"mux.Status":                      reflect.TypeFor[mux.Status](),
	"mux/follow.Mux":                  reflect.TypeFor[follow.Mux](),
	"mux/follow.Options":              reflect.TypeFor[follow.Options](),
	"mux/follow.ResourceStatus":       reflect.TypeFor[follow.ResourceStatus](),
	"mux/follow.Selection":            reflect.TypeFor[follow.Selection](),
	"mux/follow.State":                reflect.TypeFor[follow.State](),
	"mux/follow.Status":               reflect.TypeFor[follow.Status](),
	"stream.ClientOptions":            reflect.TypeFor[stream.ClientOptions](),
	"stream.End":                      reflect.TypeFor[stream.End](),
	"stream.Event":                    reflect.TypeFor[stream.Event](),
	"stream.GapDetails":               reflect.TypeFor[stream.GapDetails](),
	"stream.GapError":                 reflect.TypeFor[stream.GapError](),
	"stream.GapReason":                reflect.TypeFor[stream.GapReason](),
	"stream.GaveUpError":              reflect.TypeFor[stream.GaveUpError](),
	"stream.NotWatchableError":        reflect.TypeFor[stream.NotWatchableError](),
	"stream.ObjectsMode":              reflect.TypeFor[stream.ObjectsMode](),
	"stream.Options":                  reflect.TypeFor[stream.Options](),
	"stream.OptionsError":             reflect.TypeFor[stream.OptionsError](),
	"stream.PanicError":               reflect.TypeFor[stream.PanicError](),
	"stream.Request":                  reflect.TypeFor[stream.Request](),
	"stream.RequestError":             reflect.TypeFor[stream.RequestError](),
	"stream.Requests":                 reflect.TypeFor[stream.Requests](),
	"stream.Run":                      reflect.TypeFor[stream.Run](),
	"stream.Sequence":                 reflect.TypeFor[stream.Sequence](),
	"stream.Start":                    reflect.TypeFor[stream.Start](),
	"stream.State":                    reflect.TypeFor[stream.State](),
	"stream.Status":                   reflect.TypeFor[stream.Status](),
	"stream.Stream":                   reflect.TypeFor[stream.Stream](),
	"stream.Trace":                    reflect.TypeFor[stream.Trace](),
	"stream.Type":                     reflect.TypeFor[stream.Type](),
	"stream/condition.Condition":      reflect.TypeFor[condition.Condition](),
	"stream/condition.Target":         reflect.TypeFor[condition.Target](),
	"stream/condition.UnmetError":     reflect.TypeFor[condition.UnmetError](),
	"stream/controller.Key":           reflect.TypeFor[controller.Key](),
	"stream/controller.Options":       reflect.TypeFor[controller.Options](),
	"stream/controller.Result":        reflect.TypeFor[controller.Result](),
	"stream/controller.Source":        reflect.TypeFor[controller.Source[controller.Key]](),
	"stream/controller.SourceOptions": reflect.TypeFor[controller.SourceOptions](),
	"stream/informer.Option":          reflect.TypeFor[informer.Option](),
	"stream/informer.ListerWatcher":   reflect.TypeFor[informer.ListerWatcher](),
	"stream/informer.Watcher":         reflect.TypeFor[informer.Watcher](),
	"stream/store.Change":             reflect.TypeFor[store.Change](),
	"stream/store.Object":             reflect.TypeFor[store.Object](),
	"stream/store.Options":            reflect.TypeFor[store.Options](),
	"stream/store.Query":              reflect.TypeFor[store.Query](),
	"stream/store.Store":              reflect.TypeFor[store.Store](),
	"stream/streamtest.Change":        reflect.TypeFor[streamtest.Change](),
	"stream/streamtest.CheckOptions":  reflect.TypeFor[streamtest.CheckOptions](),
	"stream/streamtest.History":       reflect.TypeFor[streamtest.History](),
	"stream/streamtest.Recording":     reflect.TypeFor[streamtest.Recording](),
	"stream/streamtest.Request":       reflect.TypeFor[streamtest.Request](),
	"stream/streamtest.Server":        reflect.TypeFor[streamtest.Server](),
	"stream/streamtest.Violation":     reflect.TypeFor[streamtest.Violation](),
}

// panics says why a function may panic. What does not is removed from here.
var panics = map[string]string{
	"stream/condition.MustParse":         "its text is a constant",
	"stream/streamtest.NewServer":        "it is for tests, and its resources are constants",
	"stream/streamtest.Server.Put":       "as NewServer",
	"stream/streamtest.Server.Serve":     "as NewServer",
	"stream/streamtest.Server.ServeHTTP": "net/http calls it, never with nil",
}

// variant says which zero values a call gets.
type variant struct {
	context  bool // one that ends soon, not nil
	pointers bool // to zero values, functions that return zero values, and interfaces with zero values; not nil
}

func (v variant) String() string {
	return fmt.Sprintf("with a context: %v, with pointers: %v", v.context, v.pointers)
}

// TestZeroValues: no function or method of the library panics or hangs with zero values, but methods of a nil pointer.
func TestZeroValues(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("KUBECONFIG", "none")
	t.Setenv("HOME", "none")
	calls, panicked := 0, map[string]bool{}
	for _, v := range []variant{{}, {context: true}, {pointers: true}, {context: true, pointers: true}} {
		c := caller{t, v, &calls, panicked}
		for _, name := range slices.Sorted(maps.Keys(functions)) {
			c.call(name, reflect.ValueOf(functions[name]), 1)
		}
		for _, name := range slices.Sorted(maps.Keys(types)) {
			pointer := reflect.PointerTo(types[name])
			for i := range pointer.NumMethod() {
				c.method(name, reflect.New(types[name]), i, 1)
			}
		}
		for i, one := range made(t) {
			for method := range reflect.TypeOf(one).NumMethod() {
				receiver := reflect.ValueOf(made(t)[i]) // no call before has changed it
				c.method(nameOf(receiver.Type().Elem()), receiver, method, 1)
			}
		}
	}
	if calls < 1000 {
		t.Errorf("only %d calls", calls)
	}
	for name := range panics {
		if !panicked[name] {
			t.Errorf("%s never panics", name)
		}
	}
}

// made returns values that were made as they must be.
func made(t *testing.T) []any {
	widgets := gvr.Resource{Kind: "Widget", Singular: "widget", Namespaced: true}
	widgets.Group, widgets.Version, widgets.Resource = "example.com", "v1", "widgets"
	widgets.Verbs = []string{"list", "watch"}
	srv := streamtest.NewServer(widgets)
	for _, name := range []string{"a", "b", "c"} {
		srv.Put(widgets, "ns", name)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	newStream := func() *stream.Stream {
		s, err := stream.New(srv.Client(), widgets, nil)
		must(err)
		return s
	}
	connection, err := gvrwatch.Connect(srv.Config())
	must(err)
	merged, err := mux.New(nil, newStream())
	must(err)
	followed, err := connection.Follow(follow.Selection{Resources: []string{"*"}}, nil)
	must(err)
	objects, err := store.New(newStream(), nil)
	must(err)
	source, err := controller.NewSource(newStream(), func(stream.Event) []controller.Key { return nil }, nil)
	must(err)
	disk, err := file.Open(filepath.Join(t.TempDir(), "checkpoint"))
	must(err)
	t.Cleanup(func() { disk.Close() })
	here := checkpoint.Cluster{UID: "u"}
	tracker, err := checkpoint.NewTracker(&checkpoint.Memory{}, &checkpoint.Options{Cluster: here})
	must(err)
	t.Cleanup(func() { tracker.Close() })
	watcher := informer.Watch(t.Context(), newStream())
	t.Cleanup(watcher.Stop)
	event, err := stream.Until(newStream().Events(t.Context()), func(stream.Event) (bool, error) { return true, nil })
	must(err)
	sequence, ready := newStream().With(stream.Run{}), condition.MustParse("condition=Ready")
	return []any{
		newStream(), sequence, merged, followed, connection, connection.Resolver(), objects, source, disk, tracker,
		watcher, informer.NewListerWatcher(newStream()), &event, &ready, srv,
	}
}

type caller struct {
	*testing.T
	variant  variant
	calls    *int
	panicked map[string]bool
}

func (c caller) method(name string, receiver reflect.Value, i, depth int) {
	f := receiver.Method(i).Type()
	for i := range f.NumIn() {
		if strings.Contains(f.In(i).PkgPath(), module+"/internal/") {
			return // only this module can call it
		}
	}
	c.call(name+"."+receiver.Type().Method(i).Name, receiver.Method(i), depth)
}

// call calls a function, and what it returns: functions, sequences, and methods of our types.
func (c caller) call(name string, f reflect.Value, depth int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	*c.calls++
	var out []reflect.Value
	c.guarded(name, func() { out = f.Call(c.arguments(ctx, f.Type())) })
	for _, result := range out {
		if result.Kind() == reflect.Interface {
			result = result.Elem()
		}
		switch {
		case !result.IsValid() || result.Type().String() == "*informer.compactInformer":
			// The methods of a compact informer are client-go's: Run without a channel runs forever, and without a
			// context it panics.
		case result.Kind() == reflect.Func && (result.Type().CanSeq() || result.Type().CanSeq2()):
			if !result.IsNil() {
				c.guarded("loop over "+name, func() { loop(result) })
			}
		case result.Kind() == reflect.Func && !result.IsNil():
			c.guarded("result of "+name, func() { result.Call(c.arguments(ctx, result.Type())) })
		case depth > 0 && result.Kind() == reflect.Pointer && !result.IsNil() && isOurs(result.Type().Elem()):
			for i := range result.NumMethod() {
				c.method(nameOf(result.Type().Elem()), result, i, depth-1)
			}
		}
	}
}

const module = "github.com/gvrwatch/gvrwatch"

// nameOf returns the name of one of our types, as in the list of types.
func nameOf(t reflect.Type) string {
	for name, one := range types {
		if one == t {
			return name
		}
	}
	return t.String()
}

func isOurs(t reflect.Type) bool { return strings.HasPrefix(t.PkgPath(), module) }

// loop receives at most three values of a sequence.
func loop(seq reflect.Value) {
	n := 0
	body := reflect.MakeFunc(seq.Type().In(0), func([]reflect.Value) []reflect.Value {
		n++
		return []reflect.Value{reflect.ValueOf(n < 3)}
	})
	seq.Call([]reflect.Value{body})
}

// guarded reports a panic of f, or that it does not return.
func (c caller) guarded(name string, f func()) {
	done := make(chan string, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
			}
			close(done)
		}()
		f()
	}()
	select {
	case problem := <-done:
		c.panicked[name] = c.panicked[name] || problem != ""
		if problem != "" && panics[name] == "" {
			c.Errorf("%s, %s: %s", name, c.variant, problem)
		}
	case <-time.After(10 * time.Second):
		c.Errorf("%s, %s: it does not return", name, c.variant)
	}
}

// implementations are zero values of our types that may stand for an interface.
var implementations = []any{
	&stream.Stream{}, &stream.Sequence{}, &mux.Mux{}, &follow.Mux{}, &checkpoint.Memory{}, &informer.ListerWatcher{},
}

func (c caller) arguments(ctx context.Context, f reflect.Type) (in []reflect.Value) {
	for i := range f.NumIn() {
		if !f.IsVariadic() || i < f.NumIn()-1 {
			in = append(in, c.value(ctx, f.In(i)))
		} else if c.variant.pointers {
			in = append(in, c.value(ctx, f.In(i).Elem()))
		}
	}
	return in
}

// value returns an argument.
func (c caller) value(ctx context.Context, t reflect.Type) reflect.Value {
	isContext := t == reflect.TypeFor[context.Context]()
	switch {
	case isContext && c.variant.context:
		return reflect.ValueOf(ctx)
	case isContext || !c.variant.pointers:
	case t.Kind() == reflect.Pointer:
		return reflect.New(t.Elem())
	case t.Kind() == reflect.Interface:
		for _, one := range implementations {
			if reflect.TypeOf(one).Implements(t) && t.NumMethod() > 0 {
				return reflect.ValueOf(one)
			}
		}
	case t.Kind() == reflect.Func:
		return reflect.MakeFunc(t, func([]reflect.Value) (out []reflect.Value) {
			for i := range t.NumOut() {
				out = append(out, reflect.Zero(t.Out(i)))
			}
			return out
		})
	}
	return reflect.Zero(t)
}

// TestComplete: each exported function and type of the library's public packages is in the lists.
func TestComplete(t *testing.T) {
	want, got := map[string]bool{}, map[string]bool{}
	for name := range functions {
		got[name] = true
	}
	for name := range types {
		got[name] = true
	}
	err := filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "internal" || name == "examples" || name == "testdata" ||
			strings.HasPrefix(name, ".") && name != ".."):
			if path == "../../.." {
				return nil
			}
			return filepath.SkipDir
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, _ := filepath.Rel("../../..", filepath.Dir(path))
		in := strings.TrimPrefix(filepath.ToSlash(folder), ".") + "."
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					want[in+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok && s.Name.IsExported() {
						if _, isInterface := s.Type.(*ast.InterfaceType); !isInterface {
							want[in+s.Name.Name] = true
						}
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
