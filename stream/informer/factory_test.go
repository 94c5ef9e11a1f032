package informer_test

import (
	"errors"
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
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func newFactory(t *testing.T, srv *streamtest.Server, resync time.Duration,
	o *stream.Options) dynamicinformer.DynamicSharedInformerFactory {
	t.Helper()
	f, err := informer.NewFactory(srv.Client(), resync, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFactory(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		srv.Put(widgets, "home", "bed")
		f := newFactory(t, srv, 0, nil)
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
		if diff := cmp.Diff([]string{"update door 1", "update window 1"}, sorted(h.take())); diff != "" {
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
		f := newFactory(t, srv, 0, nil)
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

// A type that goes away costs few requests, and no error handler is called.
func TestTypeThatGoesAwayIsQuiet(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		r := start(t, newStream(t, srv, nil), nil)
		defer r.stop()
		do(t, srv, "widgets delete crd")
		time.Sleep(time.Minute)
		before := len(srv.Requests())
		time.Sleep(time.Hour)
		if n := len(srv.Requests()) - before; n > 400 || len(r.errors()) > 0 {
			t.Errorf("%d requests in an hour, errors %v", n, r.errors())
		}
		if !r.HasSynced() || len(r.GetStore().List()) != 0 {
			t.Errorf("the store has %v", r.GetStore().ListKeys())
		}
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
		f, err := informer.NewFactory(c, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		h := &namesOnly{}
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
		if diff := cmp.Diff([]string{"add door", "add roof", "update door", "delete door"}, h.lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

type namesOnly struct{ lines []string }

func (h *namesOnly) note(verb string, obj any) {
	h.lines = append(h.lines, verb+" "+obj.(*unstructured.Unstructured).GetName())
}
func (h *namesOnly) OnAdd(obj any, _ bool) { h.note("add", obj) }
func (h *namesOnly) OnUpdate(_, obj any)   { h.note("update", obj) }
func (h *namesOnly) OnDelete(obj any)      { h.note("delete", obj) }

func TestFactoryOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *streamtest.Server) {
		srv.Put(widgets, "home", "bed", "labels.size=big")
		srv.Put(widgets, "home", "lamp")
		srv.Put(widgets, "shop", "shelf", "labels.size=big")
		namespaces := []string{"home"}
		options := stream.Options{Namespaces: namespaces, LabelSelector: "size=big"}
		f := newFactory(t, srv, 0, &options)
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
		planets := newWidgets()
		planets.Kind, planets.Resource, planets.Namespaced = "Planet", "planets", false
		srv := streamtest.NewServer(planets)
		srv.Put(planets, "", "mars")
		f := newFactory(t, srv, 0, nil)
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
