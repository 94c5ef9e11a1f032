package informer_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/bubbles"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/informer"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestMain(m *testing.M) {
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] // the second one uses a clock outside of a bubble
	os.Exit(m.Run())
}

var widgets = newWidgets()

func newWidgets() gvr.Resource {
	r := gvr.Resource{Kind: "Widget", Namespaced: true}
	r.Group, r.Version, r.Resource = "example.com", "v1", "widgets"
	return r
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

func newStream(t *testing.T, srv *streamtest.Server, o *stream.Options) *stream.Stream {
	t.Helper()
	s, err := stream.New(srv.Client(), widgets, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// do sends commands to the server, with a second after each.
func do(t *testing.T, srv *streamtest.Server, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if err := srv.Do(c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
	}
}

func remove(t *testing.T, srv *streamtest.Server, name string) {
	t.Helper()
	if _, err := srv.Delete(widgets, "shop", name); err != nil {
		t.Fatal(err)
	}
}

// handler records what an informer's handlers receive.
type handler struct {
	mu      sync.Mutex
	lines   []string
	deleted []any
	names   map[string]string // from uid to "name 1", "name 2"
	counts  map[string]int
}

// line describes an object: its name, and which object of that name it is.
func (h *handler) line(verb string, obj any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		verb, obj = verb+" unknown", d.Obj
	}
	o := obj.(metav1.Object)
	if h.names == nil {
		h.names, h.counts = map[string]string{}, map[string]int{}
	}
	if h.names[string(o.GetUID())] == "" {
		h.counts[o.GetName()]++
		h.names[string(o.GetUID())] = fmt.Sprint(o.GetName(), " ", h.counts[o.GetName()])
	}
	h.lines = append(h.lines, verb+" "+h.names[string(o.GetUID())])
}

func (h *handler) OnAdd(obj any, _ bool)    { h.line("add", obj) }
func (h *handler) OnUpdate(before, obj any) { h.line("update", obj) }
func (h *handler) OnDelete(obj any) {
	h.line("delete", obj)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deleted = append(h.deleted, obj)
}

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

// running is an informer that runs in a bubble.
type running struct {
	cache.SharedIndexInformer
	*handler
	stop func() // and wait
	errs []error
}

// errors returns what the error handler has received.
func (r *running) errors() []error {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errs)
}

// start runs an informer for a second.
func start(t *testing.T, s *stream.Stream, prepare func(cache.SharedIndexInformer)) *running {
	t.Helper()
	i, err := informer.NewSharedIndexInformer(s, cache.SharedIndexInformerOptions{
		ResyncPeriod: bubbles.NoResync,
		Indexers:     cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	if err != nil {
		t.Fatal(err)
	}
	if prepare != nil {
		prepare(i)
	}
	return startInformer(t, i)
}

func startInformer(t *testing.T, i cache.SharedIndexInformer) *running {
	t.Helper()
	r := &running{SharedIndexInformer: i, handler: &handler{}}
	if _, err := i.AddEventHandler(r.handler); err != nil {
		t.Fatal(err)
	}
	if err := i.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, err)
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.RunWithContext(ctx)
	}()
	r.stop = func() { cancel(); <-done }
	time.Sleep(time.Second)
	return r
}

// reason returns the reason of a Status, or "" without an error.
func reason(err error) metav1.StatusReason { return apierrors.ReasonForError(err) }
