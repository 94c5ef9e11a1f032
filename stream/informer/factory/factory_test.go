package factory_test

import (
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/bubbles"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/informer/factory"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] // the second one uses a clock outside of a bubble
	os.Exit(m.Run())
}

var widgets = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"},
	Kind:                 "Widget", Namespaced: true,
}

// inBubble runs f with a server that has the objects door and window in the namespace shop.
func inBubble(t *testing.T, f func(t *testing.T, srv *streamtest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		srv.Put(widgets, "shop", "door")
		srv.Put(widgets, "shop", "window")
		f(t, srv)
	})
}

func newFactory(t *testing.T, srv *streamtest.Server, resync time.Duration,
	o *stream.Options) dynamicinformer.DynamicSharedInformerFactory {
	t.Helper()
	f, err := factory.New(srv.Client(), resync, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFactory(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		srv.Put(widgets, "home", "bed")
		f := newFactory(t, srv, bubbles.NoResync, nil)
		i := f.ForResource(widgets.GroupVersionResource)
		if i.Informer() != f.ForResource(widgets.GroupVersionResource).Informer() {
			t.Error("ForResource returns another informer the second time")
		}
		stop := make(chan struct{})
		if got := f.WaitForCacheSync(stop); len(got) != 0 {
			t.Errorf("before Start: synced %v", got)
		}
		f.Start(stop)
		f.Start(stop)
		want := map[schema.GroupVersionResource]bool{widgets.GroupVersionResource: true}
		if diff := cmp.Diff(want, f.WaitForCacheSync(stop)); diff != "" {
			t.Errorf("synced (-want +got):\n%s", diff)
		}
		all, err := i.Lister().List(labels.Everything())
		if err != nil || len(all) != 3 {
			t.Errorf("List: %d objects, %v", len(all), err)
		}
		some, err := i.Lister().ByNamespace("shop").List(labels.Everything())
		if err != nil || len(some) != 2 {
			t.Errorf("ByNamespace: %d objects, %v", len(some), err)
		}
		if _, err := i.Lister().ByNamespace("shop").Get("door"); err != nil {
			t.Error(err)
		}
		close(stop)
		f.Shutdown()
		f.Shutdown()
		f.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
		f.Start(make(chan struct{}))
		if got := f.WaitForCacheSync(stop); len(got) != 1 {
			t.Errorf("Start after Shutdown runs informers: %v", got)
		}
	})
}

// TestListersSelect: with a selector the listers of compact informers return what those of plain ones do.
func TestListersSelect(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		for _, name := range []string{"bed", "table"} {
			o := srv.Put(widgets, "home", name)
			o.SetLabels(map[string]string{"room": name})
			if _, err := srv.Update(widgets, o); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		plain, err := factory.New(srv.Client(), bubbles.NoResync, nil)
		compact, compactErr := factory.New(srv.Client(), bubbles.NoResync, nil, informer.Compact())
		if err := errors.Join(err, compactErr); err != nil {
			t.Fatal(err)
		}
		listers := []cache.GenericLister{}
		for _, f := range []dynamicinformer.DynamicSharedInformerFactory{plain, compact} {
			listers = append(listers, f.ForResource(widgets.GroupVersionResource).Lister())
			f.Start(stop)
			f.WaitForCacheSync(stop)
		}
		for _, c := range []struct {
			selector, namespace string
			want                []string
		}{
			{"", "", []string{"bed", "door", "table", "window"}},
			{"", "shop", []string{"door", "window"}},
			{"room", "", []string{"bed", "table"}},
			{"!room", "", []string{"door", "window"}},
			{"room!=bed", "home", []string{"table"}},
			{"room=bed", "shop", nil},
			{"room=bed", "none", nil},
		} {
			s, err := labels.Parse(c.selector)
			if err != nil {
				t.Fatal(err)
			}
			for n, l := range listers {
				found, err := l.List(s)
				if c.namespace != "" {
					found, err = l.ByNamespace(c.namespace).List(s)
				}
				var names []string
				for _, o := range found {
					names = append(names, o.(*unstructured.Unstructured).GetName())
				}
				slices.Sort(names)
				if diff := cmp.Diff(c.want, names); diff != "" || err != nil {
					t.Errorf("lister %d, %q in %q: %v (-want +got):\n%s", n, c.selector, c.namespace, err, diff)
				}
			}
		}
		close(stop)
		plain.Shutdown()
		compact.Shutdown()
	})
}

// Shutdown returns when all handlers have.
func TestShutdownWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		f := newFactory(t, srv, bubbles.NoResync, nil)
		i := f.ForResource(widgets.GroupVersionResource).Informer()
		busy := false
		_, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
			busy = true
			time.Sleep(time.Minute)
			busy = false
		}})
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		f.Start(stop)
		time.Sleep(time.Second)
		if found, err := i.GetIndexer().ByIndex(cache.NamespaceIndex, "shop"); len(found) != 2 {
			t.Errorf("by namespace: %d objects, %v", len(found), err)
		}
		close(stop)
		f.Shutdown()
		if busy {
			t.Error("Shutdown has returned while a handler runs")
		}
		synctest.Wait()
	})
}

func TestFactoryResyncs(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		f := newFactory(t, srv, time.Minute, nil)
		h := &handler{}
		if _, err := f.ForResource(widgets.GroupVersionResource).Informer().AddEventHandler(h); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		f.Start(stop)
		time.Sleep(time.Second)
		h.take()
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"update door", "update window"}, sorted(h.take())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		close(stop)
		f.Shutdown()
	})
}

// A type that the server does not serve yet, and a resource that New refuses, are no reason to panic.
func TestFactoryOfUnservedTypes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer()
		f := newFactory(t, srv, bubbles.NoResync, nil)
		var (
			mu   sync.Mutex
			last error
		)
		note := func(_ *cache.Reflector, err error) {
			mu.Lock()
			defer mu.Unlock()
			last = err
		}
		later, never := f.ForResource(widgets.GroupVersionResource), f.ForResource(schema.GroupVersionResource{})
		for _, i := range []cache.SharedIndexInformer{later.Informer(), never.Informer()} {
			if err := i.AddIndexers(cache.Indexers{"by namespace": cache.MetaNamespaceIndexFunc}); err != nil {
				t.Error(err)
			}
		}
		if err := later.Informer().SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
			t.Fatal(err)
		}
		if err := never.Informer().SetWatchErrorHandler(note); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		f.Start(stop)
		time.Sleep(time.Hour)
		if n := len(srv.Requests()); n > 400 {
			t.Errorf("%d requests in an hour for a type that is not served", n)
		}
		mu.Lock()
		var refused *stream.OptionsError
		if !errors.As(last, &refused) {
			t.Errorf("the error handler received %v, want an OptionsError", last)
		}
		mu.Unlock()
		srv.Serve(widgets)
		srv.Put(widgets, "shop", "door")
		time.Sleep(2 * time.Minute)
		if !later.Informer().HasSynced() || never.Informer().HasSynced() {
			t.Error("want the informer of the served type synced, and the other one not")
		}
		close(stop)
		f.Shutdown()
	})
}

// client-go's fake has no resourceVersions and no uids.
func TestFakeClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := func(name string) *unstructured.Unstructured {
			o := &unstructured.Unstructured{Object: map[string]any{}}
			o.SetGroupVersionKind(widgets.GroupVersionKind())
			o.SetNamespace("shop")
			o.SetName(name)
			return o
		}
		c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{widgets.GroupVersionResource: "WidgetList"}, object("door"))
		f, err := factory.New(c, bubbles.NoResync, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := &handler{}
		i := f.ForResource(widgets.GroupVersionResource)
		if _, err := i.Informer().AddEventHandler(h); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		f.Start(stop)
		f.WaitForCacheSync(stop)
		in := c.Resource(widgets.GroupVersionResource).Namespace("shop")
		changed := object("door")
		changed.SetLabels(map[string]string{"a": "b"})
		for _, step := range []func() error{
			func() error { _, err := in.Create(t.Context(), object("roof"), metav1.CreateOptions{}); return err },
			func() error { _, err := in.Update(t.Context(), changed, metav1.UpdateOptions{}); return err },
			func() error { return in.Delete(t.Context(), "door", metav1.DeleteOptions{}) },
		} {
			if err := step(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		close(stop)
		f.Shutdown()
		if diff := cmp.Diff([]string{"add door", "add roof", "update door", "delete door"}, h.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// handler records what an informer's handlers receive.
type handler struct {
	mu    sync.Mutex
	lines []string
}

func (h *handler) note(verb string, obj any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, verb+" "+obj.(*unstructured.Unstructured).GetName())
}
func (h *handler) OnAdd(obj any, _ bool) { h.note("add", obj) }
func (h *handler) OnUpdate(_, obj any)   { h.note("update", obj) }
func (h *handler) OnDelete(obj any)      { h.note("delete", obj) }

// take returns the lines since the last call.
func (h *handler) take() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	h.lines = nil
	return lines
}

func sorted(lines []string) []string {
	slices.Sort(lines)
	return lines
}

func TestFactoryOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		srv.Put(widgets, "home", "bed", "labels.size=big")
		srv.Put(widgets, "home", "lamp")
		srv.Put(widgets, "shop", "shelf", "labels.size=big")
		namespaces := []string{"home"}
		options := stream.Options{Namespaces: namespaces, LabelSelector: "size=big"}
		f := newFactory(t, srv, bubbles.NoResync, &options)
		options.LabelSelector, namespaces[0] = "size=small", "shop" // the factory has copies
		i := f.ForResource(widgets.GroupVersionResource).Informer()
		stop := make(chan struct{})
		f.Start(stop)
		f.WaitForCacheSync(stop)
		if diff := cmp.Diff([]string{"home/bed"}, i.GetStore().ListKeys()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		close(stop)
		f.Shutdown()
	})
}

// A factory does not know which resources are namespaced.
func TestFactoryOfAClusterScopedType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		planets := widgets
		planets.Kind, planets.Resource, planets.Namespaced = "Planet", "planets", false
		srv := streamtest.NewServer(planets)
		srv.Put(planets, "", "mars")
		f := newFactory(t, srv, bubbles.NoResync, nil)
		i := f.ForResource(planets.GroupVersionResource)
		i.Informer()
		stop := make(chan struct{})
		f.Start(stop)
		time.Sleep(time.Second)
		srv.Put(planets, "", "venus")
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"mars", "venus"}, sorted(i.Informer().GetStore().ListKeys())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if _, err := i.Lister().Get("mars"); err != nil {
			t.Error(err)
		}
		close(stop)
		f.Shutdown()
	})
}

func TestNewRefuses(t *testing.T) {
	srv := streamtest.NewServer(widgets)
	defer srv.Close()
	c := srv.Client()
	for _, tt := range []struct {
		why    string
		client dynamic.Interface
		resync time.Duration
		o      *stream.Options
		field  string // of the error
	}{
		{"no client", nil, 0, nil, "client"},
		{"a negative resync period", c, -1, nil, "resync"},
		{"stream.New refuses the option for every resource", c, 0,
			&stream.Options{Requests: stream.Requests{PageSize: -1}}, "Requests.PageSize"},
		{"also with namespaces", c, 0, &stream.Options{Namespaces: []string{"a b"}}, "Namespaces"},
	} {
		_, err := factory.New(tt.client, tt.resync, tt.o)
		var invalid *stream.OptionsError
		if !errors.As(err, &invalid) || invalid.Field != tt.field {
			t.Errorf("%s: got %v, want an OptionsError of %s", tt.why, err, tt.field)
		}
	}
}

// A resource that stream.New refuses is no reason to fail: only its informer never syncs.
func TestRefusedResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(widgets)
		f := newFactory(t, srv, bubbles.NoResync, nil)
		none := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "a/b"}
		var refused error
		if err := f.ForResource(none).Informer().SetWatchErrorHandler(
			func(_ *cache.Reflector, err error) { refused = err }); err != nil {
			t.Fatal(err)
		}
		f.ForResource(widgets.GroupVersionResource)
		stop := make(chan struct{})
		f.Start(stop)
		time.AfterFunc(time.Minute, func() { close(stop) })
		want := map[schema.GroupVersionResource]bool{widgets.GroupVersionResource: true, none: false}
		if diff := cmp.Diff(want, f.WaitForCacheSync(stop)); diff != "" {
			t.Errorf("synced (-want +got):\n%s", diff)
		}
		f.Shutdown()
		var invalid *stream.OptionsError
		if !errors.As(refused, &invalid) || invalid.Field != "Resource" {
			t.Errorf("the error handler received %v, want an OptionsError of Resource", refused)
		}
	})
}
