package compact

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// timeout limits each wait for something that must happen. On an idle machine the waits take milliseconds, or a few
// seconds of the reflector's backoff.
const timeout = 30 * time.Second

// hook is the type of cache.Options.NewInformer.
type hook = func(
	toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers,
) toolscache.SharedIndexInformer

// side is one of the two caches.
type side struct {
	kind
	cache.Cache
	t       *testing.T
	server  *server
	compact bool
	timeout time.Duration
	ctx     context.Context
	options *cache.Options
	// recorders are the handlers that the row has added, by the name that it has given them.
	recorders map[string]*recorder
}

// pair runs a row.
type pair struct {
	kind
	*server
	sides       []*side // the plain one, the other
	differences []string
}

// newPair makes both caches. They run once start is called.
func newPair(t *testing.T, s *server, k kind, second hook, configure func(kind, *cache.Options)) *pair {
	t.Helper()
	p := &pair{kind: k, server: s}
	for i, h := range []hook{nil, second} {
		o := cache.Options{Scheme: newScheme(), NewInformer: h}
		if configure != nil {
			configure(k, &o)
		}
		c, err := cache.New(s.config, o)
		if err != nil {
			t.Fatal(err)
		}
		p.sides = append(p.sides, &side{
			kind: k, Cache: c, t: t, server: s, compact: i == 1, timeout: timeout, ctx: t.Context(),
			options: &o, recorders: map[string]*recorder{},
		})
	}
	return p
}

// start runs both caches until the test ends, or the function that it returns is called.
func (p *pair) start() (stop func()) {
	t := p.server.t
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	for _, s := range p.sides {
		s.ctx = ctx
		running.Go(func() {
			if err := s.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		s.await("the start", func() bool { return s.WaitForCacheSync(ctx) })
	}
	return stop
}

// run runs a row up to its end, or to what the compact cache does not do in time.
func (p *pair) run(do func(*pair)) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case late:
			p.differences = append(p.differences, "not in time: "+string(r))
		default:
			panic(r)
		}
	}()
	do(p)
}

// both calls f for both sides.
func (p *pair) both(f func(*side)) {
	for _, s := range p.sides {
		f(s)
	}
}

// same compares what f returns for both sides, and returns what it is for the plain one.
func (p *pair) same(what string, f func(*side) any) any {
	want, got := f(p.sides[0]), f(p.sides[1])
	if !equal(want, got) {
		p.differences = append(p.differences, fmt.Sprintf("%s (-plain +compact):\n%s", what, difference(want, got)))
	}
	return want
}

func equal(want, got any) bool { return equality.Semantic.DeepEqual(want, got) }

// byName sorts objects.
func byName(found []any) []any {
	slices.SortFunc(found, func(x, y any) int {
		return cmp.Compare(nameOf(x.(client.Object)), nameOf(y.(client.Object)))
	})
	return found
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// difference is cmp.Diff, which panics at unexported fields.
func difference(want, got any) string {
	exported := gocmp.Exporter(func(reflect.Type) bool { return true })
	return gocmp.Diff(want, got, exported)
}

// answer is what Get and List return.
type answer struct {
	Objects []client.Object
	List    client.ObjectList // without its objects
	Error   string
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// get compares Get. It fails the test unless the plain cache has the object exactly if want is true.
func (p *pair) get(name string, want bool, opts ...client.GetOption) {
	p.server.t.Helper()
	a := p.same("Get "+name, func(s *side) any { return s.get(name, opts...) }).(answer)
	if got := a.Error == ""; got != want {
		p.server.t.Fatalf("Get %s of the plain cache: %v, want an object: %t", name, a.Error, want)
	}
}

func (s *side) get(name string, opts ...client.GetOption) answer {
	o := s.object()
	namespace, name := split(name)
	err := s.Get(s.ctx, client.ObjectKey{Namespace: namespace, Name: name}, o, opts...)
	return answer{[]client.Object{o}, nil, errorText(err)}
}

// find compares List. The plain cache must have the objects of want: NAMESPACE/NAME, separated by spaces.
func (p *pair) find(want string, opts ...client.ListOption) {
	p.server.t.Helper()
	a := p.same(fmt.Sprintf("List %+v", opts), func(s *side) any { return s.find(opts...) }).(answer)
	names := []string{}
	for _, o := range a.Objects {
		names = append(names, nameOf(o))
	}
	if got := strings.Join(names, " ") + a.Error; got != want {
		p.server.t.Fatalf("List %+v of the plain cache: got %q, want %q", opts, got, want)
	}
}

func (s *side) find(opts ...client.ListOption) answer {
	l := s.list()
	err := s.List(s.ctx, l, opts...)
	found, extractErr := meta.ExtractList(l)
	if extractErr != nil {
		s.t.Fatal(extractErr)
	}
	a := answer{List: l, Error: errorText(err)}
	for _, o := range found {
		a.Objects = append(a.Objects, o.(client.Object))
	}
	slices.SortFunc(a.Objects, func(x, y client.Object) int { return cmp.Compare(nameOf(x), nameOf(y)) })
	if err := meta.SetList(l, nil); err != nil {
		s.t.Fatal(err)
	}
	return a
}

func nameOf(o client.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// await waits until both caches have a version of an object, or none if it is empty.
func (p *pair) await(name, version string) {
	p.server.t.Helper()
	p.both(func(s *side) {
		s.await(name+" at "+version, func() bool {
			a := s.get(name)
			return a.Error == "" && a.Objects[0].GetResourceVersion() == version || a.Error != "" && version == ""
		})
	})
}

// count returns how many objects a list has.
func count(l client.ObjectList) int { return meta.LenList(l) }

// late is the panic that ends a row whose compact cache does not do what the plain one does.
type late string

// await waits until done reports true.
func (s *side) await(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(s.timeout); !done(); time.Sleep(2 * time.Millisecond) {
		switch {
		case time.Now().Before(end):
		case s.compact:
			panic(late(what))
		default:
			s.t.Fatalf("not in time in the plain cache: %s", what)
		}
	}
}

// put changes an object, and waits until both caches have it.
func (p *pair) put(name string, labels ...string) {
	p.server.t.Helper()
	p.await(name, p.server.put(p.resource, name, labels...).GetResourceVersion())
}

// delete deletes an object, and waits until both caches have noticed.
func (p *pair) delete(name string) {
	p.server.t.Helper()
	p.server.delete(p.resource, name)
	p.await(name, "")
}

// informer returns the informer of the row's kind.
func (s *side) informer() cache.Informer {
	s.t.Helper()
	i, err := s.GetInformer(context.Background(), s.object(), cache.BlockUntilSynced(false))
	if err != nil {
		s.t.Fatal(err)
	}
	return i
}

// call is one call of a handler.
type call struct {
	Type     string
	Old, New client.Object
	Initial  bool
	// Key is set if the object was deleted while nobody watched: Old is the last state known.
	Key string
}

// recorder is a handler that keeps the calls for each object.
type recorder struct {
	mu    sync.Mutex
	calls map[string][]call
	wrong []string
}

func (r *recorder) record(name string, c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[name] = append(r.calls[name], c)
}

// copyOf copies what a handler gets: it must not be changed, and may change later.
func (r *recorder) copyOf(o any) client.Object {
	object, ok := o.(client.Object)
	if !ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wrong = append(r.wrong, fmt.Sprintf("a handler gets %T", o))
		return nil
	}
	return object.DeepCopyObject().(client.Object)
}

func (r *recorder) OnAdd(o any, initial bool) {
	if c := r.copyOf(o); c != nil {
		r.record(nameOf(c), call{Type: "added", New: c, Initial: initial})
	}
}

func (r *recorder) OnUpdate(before, o any) {
	old, c := r.copyOf(before), r.copyOf(o)
	if c != nil {
		r.record(nameOf(c), call{Type: "updated", Old: old, New: c})
	}
}

func (r *recorder) OnDelete(o any) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		r.record(unknown.Key, call{Type: "deleted", Old: r.copyOf(unknown.Obj), Key: unknown.Key})
	} else if c := r.copyOf(o); c != nil {
		r.record(nameOf(c), call{Type: "deleted", Old: c})
	}
}

// handler returns a new recorder.
func (s *side) handler(name string) *recorder {
	s.recorders[name] = &recorder{calls: map[string][]call{}}
	return s.recorders[name]
}

// text is the sequence of an object's calls: "added* updated deleted?" has a star for the initial list, and a question
// mark for a deletion that nobody saw.
func text(calls []call) string {
	var words []string
	for _, c := range calls {
		word := c.Type
		if c.Initial {
			word += "*"
		}
		if c.Key != "" {
			word += "?"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// called compares the calls for an object, and waits until there are as many as want has words, which is what the plain
// cache must have called.
func (p *pair) called(handler, name, want string) {
	p.server.t.Helper()
	got := p.same("calls of "+handler+" for "+name, func(s *side) any {
		r := s.recorders[handler]
		var calls []call
		s.await(handler+" "+name+": "+want, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			calls = slices.Clone(r.calls[name])
			return len(calls) >= len(strings.Fields(want)) || len(r.wrong) > 0
		})
		return calls
	}).([]call)
	if text(got) != want {
		p.server.t.Fatalf("calls of %s for %s from the plain cache: %q, want %q", handler, name, text(got), want)
	}
	p.same("what "+handler+" got", func(s *side) any {
		s.recorders[handler].mu.Lock()
		defer s.recorders[handler].mu.Unlock()
		return slices.Clone(s.recorders[handler].wrong)
	})
}
