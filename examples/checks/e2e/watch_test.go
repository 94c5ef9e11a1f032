package e2e

import (
	"context"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

func newStream(t *testing.T, c dynamic.Interface, r gvr.Resource, o *stream.Options) *stream.Stream {
	t.Helper()
	s, err := stream.New(c, r, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWatchAcrossNamespacesAndInOne(t *testing.T) {
	c := newCluster(t, shared.Config())
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	here, there := unique("here"), unique("there")
	c.create(widgets, here, "before")
	c.create(widgets, there, "before")
	all := record(t, newStream(t, c.client, r, &stream.Options{LabelSelector: "test=" + c.label}))
	one := record(t, newStream(t, c.client, r, &stream.Options{Namespaces: []string{here}}))
	all.awaitSynced(1)
	one.awaitSynced(1)

	c.create(widgets, there, "after")
	c.create(widgets, here, "after")
	c.touch(widgets, there, "before")
	c.touch(widgets, here, "before")
	c.delete(widgets, there, "after")
	c.delete(widgets, here, "after")

	isLast := func(events []stream.Event) bool {
		return slices.Contains(texts(events), "DELETED "+here+"/after")
	}
	got := all.await("the last deletion", isLast)
	checkRules(t, got)
	want := []string{
		"ADDED " + here + "/before", "ADDED " + there + "/before", "SYNCED",
		"ADDED " + there + "/after", "ADDED " + here + "/after",
		"MODIFIED " + there + "/before", "MODIFIED " + here + "/before",
		"DELETED " + there + "/after", "DELETED " + here + "/after",
	}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("across namespaces (-want +got):\n%s", diff)
	}
	got = one.await("the last deletion", isLast)
	checkRules(t, got)
	want = []string{
		"ADDED " + here + "/before", "SYNCED",
		"ADDED " + here + "/after", "MODIFIED " + here + "/before", "DELETED " + here + "/after",
	}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("in one namespace (-want +got):\n%s", diff)
	}
	for _, ev := range got {
		if ev.Object != nil && ev.Type != stream.Deleted && ev.Object.GetKind() != "Widget" {
			t.Errorf("%s has kind %q, want Widget", ev.Object.GetName(), ev.Object.GetKind())
		}
	}
}

func TestObjectLeavesAndEntersTheSelector(t *testing.T) {
	c := newCluster(t, shared.Config())
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	namespace := unique("selected")
	relabel := func(value string) {
		t.Helper()
		patch := []byte(`{"metadata":{"labels":{"colour":"` + value + `"}}}`)
		objects := c.objects(widgets, namespace)
		_, err := objects.Patch(t.Context(), "one", types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	rec := record(t, newStream(t, c.client, r, &stream.Options{
		Namespaces: []string{namespace}, LabelSelector: "colour=red",
	}))
	rec.awaitSynced(1)
	uid := c.create(widgets, namespace, "one").GetUID()
	relabel("red")
	relabel("blue")
	relabel("red")
	c.delete(widgets, namespace, "one")
	got := rec.await("both DELETED", func(events []stream.Event) bool { return len(events) >= 5 })
	checkRules(t, got)
	one := " " + namespace + "/one"
	want := []string{"SYNCED", "ADDED" + one, "DELETED" + one, "ADDED" + one, "DELETED" + one}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, ev := range got[1:] {
		if ev.Object.GetUID() != uid {
			t.Errorf("%s of %s, want %s", ev.Type, ev.Object.GetUID(), uid)
		}
	}
}

func TestPages(t *testing.T) {
	// The objects need several pages of 500, with the server's own continue tokens.
	c := newCluster(t, shared.Config())
	const objects = 1100
	namespace := unique("pages")
	var names []string
	var wg sync.WaitGroup
	work := make(chan string)
	for range 8 {
		wg.Go(func() {
			mine := newCluster(t, shared.Config())
			for name := range work {
				mine.create(widgets, namespace, name)
			}
		})
	}
	for i := range objects {
		name := "w-" + string(rune('a'+i/26/26%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26))
		names = append(names, name)
		work <- name
	}
	close(work)
	wg.Wait()
	r := resolve(t, newResolver(shared.Config(), false), "widgets")
	s := newStream(t, c.client, r, &stream.Options{
		Namespaces: []string{namespace}, Requests: stream.Requests{PagedLists: true},
	})
	got := record(t, s).awaitSynced(1)
	checkRules(t, got)
	var delivered []string
	for _, ev := range got[:len(got)-1] {
		delivered = append(delivered, ev.Object.GetName())
	}
	slices.Sort(names)
	slices.Sort(delivered)
	if diff := cmp.Diff(names, delivered); diff != "" {
		t.Errorf("(-created +delivered):\n%s", diff)
	}
}

func TestCRDAddedAfterStart(t *testing.T) {
	t.Parallel()
	srv := startServer(t, nil)
	resolver := newResolver(srv.Config(), false)
	resolve(t, resolver, "crds") // so that the resolver's cache is older than the CRD
	c := newCluster(t, srv.Config())
	late := devserver.CRD{Group: "late.example.com", Kind: "Latecomer", Namespaced: true}
	if err := devserver.CreateCRDs(t.Context(), c.client, late); err != nil {
		t.Fatal(err)
	}
	r := resolve(t, resolver, "latecomers")
	rec := record(t, newStream(t, c.client, r, nil))
	rec.awaitSynced(1)
	c.create(late, "default", "first")
	got := rec.awaitObject(stream.Added, "first")
	checkRules(t, got)
	if diff := cmp.Diff([]string{"SYNCED", "ADDED default/first"}, texts(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// gate is a dialer that can be closed: it then cuts its connections and refuses new ones.
type gate struct {
	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

func (g *gate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, syscall.ECONNREFUSED
	}
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err == nil {
		g.conns = append(g.conns, c)
	}
	return c, err
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for _, c := range g.conns {
		c.Close()
	}
	g.conns = nil
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

func TestDeletionsAreReportedAfterExpiry(t *testing.T) {
	t.Parallel()
	srv := startServer(t, &devserver.Options{DisableWatchCache: true})
	c := newCluster(t, srv.Config())
	if err := devserver.CreateCRDs(t.Context(), c.client, widgets); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kept", "changed", "deleted", "replaced"} {
		c.create(widgets, "default", name)
	}
	cfg, g := srv.Config(), &gate{}
	cfg.Dial = g.dial
	r := resolve(t, newResolver(srv.Config(), false), "widgets")
	rec := record(t, newStream(t, dynamic.NewForConfigOrDie(cfg), r, nil))
	rec.awaitSynced(1)

	g.close()
	c.touch(widgets, "default", "changed")
	c.delete(widgets, "default", "deleted")
	c.delete(widgets, "default", "replaced")
	c.create(widgets, "default", "replaced")
	c.create(widgets, "default", "new")
	// Compact twice with a write in between: the server refuses a version once etcd is compacted beyond it.
	for range 2 {
		c.touch(widgets, "default", "changed")
		if err := srv.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	g.open()

	got := rec.awaitSynced(2)
	checkRules(t, got)
	want := []string{
		"ADDED default/changed", "ADDED default/deleted", "ADDED default/kept", "ADDED default/replaced", "SYNCED",
		"GAP", "MODIFIED default/changed inferred", "ADDED default/new inferred",
		"DELETED default/replaced inferred", "ADDED default/replaced inferred",
		"DELETED default/deleted inferred", "SYNCED",
	}
	if diff := cmp.Diff(want, texts(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if deleted := got[10].Object; string(deleted.GetUID()) != c.writes[2].uid {
		t.Errorf("DELETED has uid %s, want %s", deleted.GetUID(), c.writes[2].uid)
	}
}
