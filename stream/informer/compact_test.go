package informer_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/stream/informer"
)

// source is a ListerWatcher of ConfigMaps, as a server is: it has lists, streamed lists and watches.
type source struct {
	mu      sync.Mutex
	version int
	objects map[string]*corev1.ConfigMap
	watches []*watch.RaceFreeFakeWatcher
	streams bool // serve streamed lists
	page    int  // objects in a page of a list; 0 for all
}

func newSource(names ...string) *source {
	s := &source{objects: map[string]*corev1.ConfigMap{}}
	for _, name := range names {
		s.put(name, "first")
	}
	return s
}

func (s *source) IsWatchListSemanticsUnSupported() bool { return !s.streams }

// put creates or changes an object of the namespace shop.
func (s *source) put(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.objects[name]
	s.version++
	o := &corev1.ConfigMap{Data: map[string]string{"value": value}}
	o.Namespace, o.Name, o.ResourceVersion = "shop", name, strconv.Itoa(s.version)
	o.Labels = map[string]string{"value": value}
	s.objects[name] = o
	kind := watch.Added
	if known {
		kind = watch.Modified
	}
	s.send(kind, o)
}

// remove deletes an object, if it exists.
func (s *source) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[name] == nil {
		return
	}
	s.version++
	o := s.objects[name].DeepCopy()
	o.ResourceVersion = strconv.Itoa(s.version)
	delete(s.objects, name)
	s.send(watch.Deleted, o)
}

func (s *source) send(kind watch.EventType, o *corev1.ConfigMap) {
	for _, w := range s.watches {
		w.Action(kind, o.DeepCopy())
	}
}

// expire ends the watches. What happens before the next list is not seen by them.
func (s *source) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.watches {
		w.Action(watch.Error, &metav1.Status{Reason: metav1.StatusReasonExpired, Code: 410})
	}
	s.watches = nil
}

// List continues after the name in Continue, if the version is still the same.
func (s *source) List(o metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	version := strconv.Itoa(s.version)
	began, last, _ := strings.Cut(o.Continue, " ")
	if o.Continue != "" && began != version {
		return nil, apierrors.NewResourceExpired("")
	}
	l := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if name <= last {
			continue
		}
		if n := len(l.Items); n > 0 && n == s.page && o.Limit > 0 {
			l.Continue = version + " " + l.Items[n-1].Name
			break
		}
		l.Items = append(l.Items, *s.objects[name].DeepCopy())
	}
	return l, nil
}

func (s *source) Watch(o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.SendInitialEvents == nil && o.ResourceVersion != strconv.Itoa(s.version) {
		return nil, apierrors.NewResourceExpired("")
	}
	w := watch.NewRaceFreeFake()
	if o.SendInitialEvents != nil {
		for _, name := range slices.Sorted(maps.Keys(s.objects)) {
			w.Add(s.objects[name].DeepCopy())
		}
		end := &corev1.ConfigMap{}
		end.ResourceVersion = strconv.Itoa(s.version)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		w.Action(watch.Bookmark, end)
	}
	s.watches = append(s.watches, w)
	return w, nil
}

type newInformer = func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer

// byValue and byNamespace are indexers.
func byValue(obj any) ([]string, error) { return []string{obj.(*corev1.ConfigMap).Data["value"]}, nil }

var byNamespace = cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}

// startCompact runs an informer of a source, with a resync each minute, until the test ends. It waits until that has
// synced.
func startCompact(t *testing.T, made newInformer, s cache.ListerWatcher, indexers cache.Indexers,
	prepare func(cache.SharedIndexInformer)) cache.SharedIndexInformer {
	t.Helper()
	i := made(s, &corev1.ConfigMap{}, time.Minute, indexers)
	prepare(i)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { i.RunWithContext(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	pause(time.Second)
	return i
}

// contents returns what an informer has, as it was before the caller changed it.
func contents(i cache.SharedIndexInformer) map[string]*corev1.ConfigMap {
	all := map[string]*corev1.ConfigMap{}
	for _, o := range i.GetStore().List() {
		all[o.(*corev1.ConfigMap).Name] = o.(*corev1.ConfigMap).DeepCopy()
	}
	return all
}

// log records what a handler receives, with copies.
type log struct {
	mu     sync.Mutex
	events []entry
}

// entry is a call of a handler. The objects are nil if there is none.
type entry struct {
	What     string
	Old, New *corev1.ConfigMap
}

func (l *log) add(e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Old, e.New = e.Old.DeepCopy(), e.New.DeepCopy()
	l.events = append(l.events, e)
}

func (l *log) OnAdd(obj any, initial bool) {
	l.add(entry{fmt.Sprint("add ", initial), nil, obj.(*corev1.ConfigMap)})
}

func (l *log) OnUpdate(old, obj any) {
	l.add(entry{"update", old.(*corev1.ConfigMap), obj.(*corev1.ConfigMap)})
}

func (l *log) OnDelete(obj any) {
	if t, isTombstone := obj.(cache.DeletedFinalStateUnknown); isTombstone {
		l.add(entry{"tombstone " + t.Key, t.Obj.(*corev1.ConfigMap), nil})
		return
	}
	l.add(entry{"delete", obj.(*corev1.ConfigMap), nil})
}

func (l *log) take() []entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.events
	l.events = nil
	return taken
}

// TestCompactIsLikePlain makes random changes, gaps and reads, and compares a compact informer with client-go's.
func TestCompactIsLikePlain(t *testing.T) {
	seedtest.Default(60).Run(t, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			got := scenarioOf(t, informer.NewCompact, seed)
			want := scenarioOf(t, cache.NewSharedIndexInformer, seed)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	})
}

// scenarioOf returns what handlers and readers of an informer see.
func scenarioOf(t *testing.T, made newInformer, seed uint64) (seen []any) {
	r := rand.New(rand.NewPCG(seed, 46))
	s := newSource("a", "b", "c")
	s.streams, s.page = r.IntN(2) == 0, r.IntN(3)
	early, resyncing, late := &log{}, &log{}, &log{}
	i := startCompact(t, made, s, maps.Clone(byNamespace), func(i cache.SharedIndexInformer) {
		if r.IntN(2) == 0 {
			set(t, i.SetTransform(func(obj any) (any, error) {
				o := obj.(*corev1.ConfigMap)
				o.Annotations = map[string]string{"transformed": o.Data["value"]}
				return o, nil
			}))
		}
		_, err := i.AddEventHandler(early)
		set(t, err)
		_, err = i.AddEventHandlerWithResyncPeriod(resyncing, 2*time.Minute)
		set(t, err)
	})
	var registration cache.ResourceEventHandlerRegistration
	for step := range 40 {
		name := string(rune('a' + r.IntN(5)))
		synctest.Wait()
		switch r.IntN(8) {
		case 0, 1, 2:
			s.put(name, fmt.Sprint("value", r.IntN(3)))
		case 3:
			s.remove(name)
		case 4: // client-go lists again after a random time
			s.expire()
			s.put(name, "unseen")
			s.remove(string(rune('a' + r.IntN(5))))
			pause(3 * time.Minute)
		case 5:
			var err error
			if registration == nil {
				registration, err = i.AddEventHandlerWithOptions(late, cache.HandlerOptions{})
			} else {
				err, registration = i.RemoveEventHandler(registration), nil
			}
			set(t, err)
		case 6:
			pause(25 * time.Second)
		case 7:
			err := i.AddIndexers(cache.Indexers{"value": byValue})
			seen = append(seen, err == nil, slices.Sorted(maps.Keys(i.GetIndexer().GetIndexers())))
		}
		if step%4 == 0 {
			synctest.Wait()
			pause(3 * time.Second)
			seen = append(seen, step, contents(i), keysOf(i.GetIndexer().Index(cache.NamespaceIndex,
				&metav1.ObjectMeta{Namespace: "shop"})), keysOf(i.GetIndexer().ByIndex("value", "value1")))
		}
	}
	pause(time.Minute)
	for _, l := range []*log{early, resyncing, late} {
		seen = append(seen, byObject(l.take()))
	}
	return append(seen, contents(i))
}

func set(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keysOf returns the sorted keys of objects, or the error.
func keysOf(items []any, err error) []string {
	if err != nil {
		return []string{err.Error()}
	}
	var keys []string
	for _, o := range items {
		key, _ := cache.MetaNamespaceKeyFunc(o)
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// byObject sorts events by object: a list has no order. It leaves out resyncs, whose times are random after a relist.
func byObject(events []entry) map[string][]entry {
	sorted := map[string][]entry{}
	for _, e := range events {
		if e.Old != nil && e.New != nil && e.Old.ResourceVersion == e.New.ResourceVersion {
			continue
		}
		name := present(e.Old, e.New).Name
		sorted[name] = append(sorted[name], e)
	}
	return sorted
}

// present returns a, or b if there is no a.
func present(a, b *corev1.ConfigMap) *corev1.ConfigMap {
	if a != nil {
		return a
	}
	return b
}

// TestCompactBelongsToTheCaller: whoever changes what was read from the store, or what a handler received, changes it
// for nobody who reads the store, and not the old object of the next update.
func TestCompactBelongsToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSource("a", "b")
		var olds []string
		vandal := func(obj any) {
			o := obj.(*corev1.ConfigMap)
			o.Data["value"], o.Labels = "broken", nil
		}
		indexers := cache.Indexers{"value": byValue}
		i := startCompact(t, informer.NewCompact, s, indexers, func(i cache.SharedIndexInformer) {
			_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: vandal, DeleteFunc: vandal,
				UpdateFunc: func(old, obj any) {
					olds = append(olds, old.(*corev1.ConfigMap).Data["value"])
					vandal(old)
					vandal(obj)
				},
			})
			set(t, err)
		})
		s.put("a", "second")
		synctest.Wait()
		s.put("a", "third") // at once, so that the last new object is still kept for handlers
		synctest.Wait()
		want := contents(i)
		if want["a"].Data["value"] != "third" || want["b"].Data["value"] != "first" {
			t.Errorf("the store has %v", want)
		}
		if diff := cmp.Diff([]string{"first", "second"}, olds); diff != "" {
			t.Errorf("old objects (-want +got):\n%s", diff)
		}
		x := i.GetIndexer()
		reads := map[string]func() []any{
			"List":         x.List,
			"Store().List": i.GetStore().List,
			"GetByKey":     func() []any { o, _, _ := x.GetByKey("shop/a"); return []any{o} },
			"Get":          func() []any { o, _, _ := x.Get(want["a"]); return []any{o} },
			"ByIndex":      func() []any { o, _ := x.ByIndex("value", "third"); return o },
			"Index":        func() []any { o, _ := x.Index("value", want["b"]); return o },
		}
		for name, read := range reads {
			read1 := read()
			if len(read1) == 0 {
				t.Errorf("%s returns nothing", name)
			}
			for _, o := range read1 {
				vandal(o)
			}
			if diff := cmp.Diff(want, contents(i)); diff != "" {
				t.Errorf("after a caller of %s changed what it got (-want +got):\n%s", name, diff)
			}
		}
	})
}

// TestCompactTransform: the transform is called once for each object and deletion, never with a packed object, and what
// it returns is what is kept.
func TestCompactTransform(t *testing.T) {
	for _, how := range []struct {
		streams bool
		page    int
	}{{false, 0}, {false, 1}, {true, 0}} {
		synctest.Test(t, func(t *testing.T) {
			s, streams := newSource("a", "b", "gone"), how.streams
			s.streams, s.page = streams, how.page
			calls := map[string]int{}
			l := &log{}
			i := startCompact(t, informer.NewCompact, s, maps.Clone(byNamespace), func(i cache.SharedIndexInformer) {
				set(t, i.SetTransform(func(any) (any, error) { return nil, errors.New("a former transform") }))
				set(t, i.SetTransform(func(obj any) (any, error) {
					o := obj.(*corev1.ConfigMap)
					calls[o.Name+o.ResourceVersion]++
					if o.Name == "bad" {
						return nil, errors.New("bad")
					}
					o.Data = nil
					return o, nil
				}))
				_, err := i.AddEventHandler(l)
				set(t, err)
			})
			s.put("c", "x")
			s.put("bad", "x")
			pause(time.Second)
			s.remove("bad")
			s.remove("a")
			pause(time.Second)
			s.expire()
			s.remove("gone")
			pause(time.Minute)
			for key, n := range calls {
				// The second list has b and c again.
				if most := map[bool]int{true: 2, false: 1}[key == "b2" || key == "c4"]; n > most {
					t.Errorf("streams %v: the transform was called %d times for %s", streams, n, key)
				}
			}
			if diff := cmp.Diff([]string{"b", "c"}, slices.Sorted(maps.Keys(contents(i)))); diff != "" {
				t.Errorf("streams %v: (-want +got):\n%s", streams, diff)
			}
			for _, e := range l.take() {
				if o := present(e.New, e.Old); o.Data != nil {
					t.Errorf("streams %v: a handler received %s with what the transform removed", streams, o.Name)
				}
			}
			if err := i.SetTransform(nil); err == nil {
				t.Error("SetTransform after the start returns no error")
			}
		})
	}
}

// TestPagesArePackedAsTheyArrive: when a page is requested, the objects of those before it are not in memory any more,
// except some for the handlers.
func TestPagesArePackedAsTheyArrive(t *testing.T) {
	const objects, page, few = 3000, 500, 200
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		for n := range objects {
			s.put(fmt.Sprintf("n%05d", n), "x")
		}
		s.page = page
		watched := &watchedPages{source: s}
		i := startCompact(t, informer.NewCompact, watched, maps.Clone(byNamespace), func(cache.SharedIndexInformer) {})
		if n := len(i.GetStore().ListKeys()); n != objects || len(watched.alive) != objects/page {
			t.Fatalf("%d objects from %d pages", n, len(watched.alive))
		}
		for n, alive := range watched.alive {
			if alive > few {
				t.Errorf("when page %d was requested, %d objects of those before it were in memory", n+1, alive)
			}
		}
	})
}

// watchedPages counts at each List how many objects of all pages before it are in memory.
type watchedPages struct {
	*source
	sent  []weak.Pointer[metav1.Time]
	alive []int
}

func (s *watchedPages) List(o metav1.ListOptions) (runtime.Object, error) {
	goruntime.GC()
	alive := 0
	for _, w := range s.sent {
		if w.Value() != nil {
			alive++
		}
	}
	s.alive = append(s.alive, alive)
	list, err := s.source.List(o)
	if err != nil {
		return nil, err
	}
	l := list.(*corev1.ConfigMapList)
	for n := range l.Items {
		written := &metav1.Time{Time: time.Now()}
		l.Items[n].ManagedFields = []metav1.ManagedFieldsEntry{{Time: written}}
		s.sent = append(s.sent, weak.Make(written))
	}
	return l, nil
}

// TestCompactWithoutTransform: SetTransform(nil), which controller-runtime calls always, leaves objects packed.
func TestCompactWithoutTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := startCompact(t, informer.NewCompact, newSource("a"), nil, func(i cache.SharedIndexInformer) {
			set(t, i.SetTransform(nil))
		})
		first, _, _ := i.GetStore().GetByKey("shop/a")
		second, _, _ := i.GetStore().GetByKey("shop/a")
		if first == second || !equality.Semantic.DeepEqual(first, second) {
			t.Errorf("got %p and %p, want equal objects that are not the same", first, second)
		}
	})
}

// TestCompactUnpackable: an object that cannot be packed belongs to who has read it, too.
func TestCompactUnpackable(t *testing.T) {
	x := informer.NewCompact(newSource(), &unstructured.Unstructured{}, 0, nil).GetIndexer()
	set(t, x.Add(&unstructured.Unstructured{Object: map[string]any{"text": "\xff",
		"metadata": map[string]any{"name": "a"}}}))
	for range 2 {
		o, _, err := x.GetByKey("a")
		u, isUnstructured := o.(*unstructured.Unstructured)
		if err != nil || !isUnstructured || u.Object["text"] != "\xff" {
			t.Fatalf("got %v, %v", o, err)
		}
		u.Object["text"] = "changed"
	}
	set(t, x.Add(&unstructured.Unstructured{Object: map[string]any{"number": 1, // of which DeepCopyObject panics
		"metadata": map[string]any{"name": "b"}}}))
	o, _, err := x.GetByKey("b")
	if u, isUnstructured := o.(*unstructured.Unstructured); !isUnstructured || u.Object["number"] != 1 {
		t.Errorf("got %v, %v", o, err)
	}
}

// TestCompactTransformToAnything: what no format can pack is kept as it is, as in client-go's informer.
func TestCompactTransformToAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &anything{}
		i := startCompact(t, informer.NewCompact, newSource("a"), nil, func(i cache.SharedIndexInformer) {
			set(t, i.SetTransform(func(obj any) (any, error) { return &obj.(*corev1.ConfigMap).ObjectMeta, nil }))
			_, err := i.AddEventHandler(l)
			set(t, err)
		})
		o, exists, err := i.GetStore().GetByKey("shop/a")
		if m, isMeta := o.(*metav1.ObjectMeta); !isMeta || m.Name != "a" || !exists || err != nil {
			t.Errorf("got %T %v %v", o, exists, err)
		}
		if _, isMeta := l.last.(*metav1.ObjectMeta); !isMeta {
			t.Errorf("the handler received a %T", l.last)
		}
	})
}

type anything struct{ last any }

func (a *anything) OnAdd(o any, _ bool) { a.last = o }
func (a *anything) OnUpdate(_, o any)   { a.last = o }
func (a *anything) OnDelete(o any)      { a.last = o }

// TestCompactIndexers: functions of indexes see whole objects, once for each, also those added after the start. What
// GetIndexers returns can be called with what the store returns.
func TestCompactIndexers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, lateCalls := 0, 0
		s := newSource("a", "b")
		i := startCompact(t, informer.NewCompact, s, cache.Indexers{"value": func(obj any) ([]string, error) {
			calls++
			return byValue(obj)
		}}, func(cache.SharedIndexInformer) {})
		for n := range 10 {
			s.put("a", fmt.Sprint(n))
			pause(time.Second)
		}
		if calls != 12 {
			t.Errorf("the index was called %d times for 2 objects and 10 updates", calls)
		}
		x := i.GetIndexer()
		late := func(obj any) ([]string, error) {
			lateCalls++
			v, err := byValue(obj)
			return append(v, "any"), err
		}
		if err := i.AddIndexers(cache.Indexers{"value": late}); err == nil {
			t.Error("AddIndexers takes a name twice")
		}
		if err := x.AddIndexers(cache.Indexers{"late": late}); err != nil {
			t.Fatal(err)
		}
		if lateCalls != 2 {
			t.Errorf("the late index was called %d times for 2 objects", lateCalls)
		}
		s.put("b", "9")
		pause(time.Second)
		got := map[string][]string{}
		for _, name := range []string{"value", "late", "none"} {
			got[name] = keysOf(x.ByIndex(name, "9"))
			got[name+" values"] = x.ListIndexFuncValues(name)
			slices.Sort(got[name+" values"])
		}
		keys, err := x.IndexKeys("late", "any")
		got["any"] = append(keys, fmt.Sprint(err))
		want := map[string][]string{
			"value": {"shop/a", "shop/b"}, "value values": {"9"},
			"late": {"shop/a", "shop/b"}, "late values": {"9", "any"},
			"none": {"Index with name none does not exist"}, "none values": {},
			"any": {"shop/a", "shop/b", "<nil>"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for name, f := range x.GetIndexers() {
			for _, o := range x.List() {
				if values, err := f(o); err != nil || values[0] != "9" {
					t.Errorf("%s: got %v, %v", name, values, err)
				}
			}
		}
	})
}

// TestCompactNilIndexers: client-go's informer panics here, because it writes to a nil map.
func TestCompactNilIndexers(t *testing.T) {
	i := informer.NewCompact(newSource(), &corev1.ConfigMap{}, 0, nil)
	if err := i.AddIndexers(byNamespace); err != nil {
		t.Error(err)
	}
}

// TestCompactIndexerWrites: programs fill the store of an informer in their tests.
func TestCompactIndexerWrites(t *testing.T) {
	i := informer.NewCompact(newSource(), &corev1.ConfigMap{}, 0, maps.Clone(byNamespace))
	x := i.GetIndexer()
	object := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	}
	set(t, x.Add(object("a")))
	set(t, x.Update(object("b")))
	changed := object("a")
	set(t, x.Add(changed))
	changed.Labels = map[string]string{"changed": "later"}
	got, _, _ := x.GetByKey("shop/a")
	if diff := cmp.Diff(object("a"), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	set(t, x.Delete(object("b")))
	if diff := cmp.Diff([]string{"shop/a"}, keysOf(x.ByIndex(cache.NamespaceIndex, "shop"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	set(t, x.Replace([]any{object("c")}, "7"))
	if diff := cmp.Diff([]string{"shop/c"}, keysOf(x.List(), nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, exists, err := x.GetByKey("shop/a"); exists || err != nil {
		t.Errorf("got %v, %v for what does not exist", exists, err)
	}
	if _, _, err := x.Get("no object"); err == nil {
		t.Error("Get of no object returns no error")
	}
}

// TestCompactResync: a resync hands a handler one object, as old and as new.
func TestCompactResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var same, calls atomic.Int32
		startCompact(t, informer.NewCompact, newSource("a"), nil, func(i cache.SharedIndexInformer) {
			_, err := i.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, o any) {
				calls.Add(1)
				if old == o {
					same.Add(1)
				}
			}}, time.Minute)
			set(t, err)
		})
		pause(10 * time.Minute)
		if n := calls.Load(); n < 9 || n != same.Load() {
			t.Errorf("of %d resyncs %d had one object", n, same.Load())
		}
	})
}

// TestCompactConcurrently reads, writes and mutates at the same time, for the race detector.
func TestCompactConcurrently(t *testing.T) {
	s := newSource("a", "b", "c")
	i := informer.NewCompact(s, &corev1.ConfigMap{}, 0, cache.Indexers{"value": byValue})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { i.RunWithContext(ctx) })
	for n := range 4 {
		all.Go(func() {
			registration, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(o any) { _ = o.(*corev1.ConfigMap).Data["value"] },
			})
			for k := 0; ctx.Err() == nil; k++ {
				for _, o := range i.GetStore().List() {
					o.(*corev1.ConfigMap).Data["value"] = "mine"
				}
				if items, err := i.GetIndexer().ByIndex("value", "mine"); len(items) > 0 || err != nil {
					t.Errorf("found %d objects of a reader, %v", len(items), err)
				}
				if k == 50 {
					_ = i.AddIndexers(cache.Indexers{fmt.Sprint("late", n): byValue})
				}
			}
			if err == nil {
				_ = i.RemoveEventHandler(registration)
			}
		})
	}
	for n := range 500 {
		s.put(string(rune('a'+n%5)), fmt.Sprint(n%7))
		if n%100 == 50 {
			s.expire()
		}
	}
	cancel()
	all.Wait()
}

// TestCompactKeepsTypes: unstructured objects and metadata have their kind, typed objects what their client gave them.
func TestCompactKeepsTypes(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "a"}
	u := &unstructured.Unstructured{Object: map[string]any{"kind": "Widget", "apiVersion": "example.com/v1",
		"metadata": map[string]any{"namespace": "shop", "name": "a"},
		"spec":     map[string]any{"size": 1.0, "parts": int64(1)}}}
	for _, c := range []struct {
		why string
		obj runtime.Object
	}{
		{"a typed object has no kind", &corev1.ConfigMap{ObjectMeta: meta}},
		{"one to which a transform gave it", &corev1.ConfigMap{ObjectMeta: meta,
			TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}}},
		{"metadata", &metav1.PartialObjectMetadata{ObjectMeta: meta,
			TypeMeta: metav1.TypeMeta{Kind: "Widget", APIVersion: "example.com/v1"}}},
		{"an unstructured object", u},
	} {
		x := informer.NewCompact(newSource(), c.obj, 0, nil).GetIndexer()
		set(t, x.Add(c.obj))
		got, _, err := x.GetByKey("shop/a")
		if diff := cmp.Diff(c.obj, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", c.why, err, diff)
		}
	}
}

// pause lets time pass in a bubble, and waits until everything has happened.
func pause(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
