package e2e

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/stream"
)

// TestDeadConversionWebhook: the watch cache cannot convert objects and its watches are silent, while lists fail with
// 500. That is a state with a cause, and deletes nothing.
func TestDeadConversionWebhook(t *testing.T) {
	t.Parallel()
	srv := startServer(t, nil)
	c := newCluster(t, srv.Config())
	converted := widgets
	converted.Versions = []string{"v1", "v1beta1"}
	if err := devserver.CreateCRDs(t.Context(), c.client, converted); err != nil {
		t.Fatal(err)
	}
	c.create(converted, "default", "a")
	r := resolve(t, newResolver(srv.Config(), false), "widgets.v1beta1.e2e.example.com")
	rec := record(t, newStream(t, c.client, r, &stream.Options{
		Requests: stream.Requests{IdleTimeout: 2 * time.Second},
	}))
	rec.awaitSynced(1)

	convert := func(conversion string) {
		t.Helper()
		crds := c.client.Resource(crdResource)
		name := converted.Resource().Resource + "." + converted.Group
		patch := []byte(`{"spec":{"conversion":` + conversion + `}}`)
		if _, err := crds.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	convert(`{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://127.0.0.1:1/convert"},
		"conversionReviewVersions":["v1"]}}`)
	if !poll(t.Context(), timeout, func() bool {
		st := rec.stream.Status()
		named := st.Cause != nil && strings.Contains(st.Cause.Error(), "conversion webhook")
		return named && (st.State == stream.Stalled || st.State == stream.Backoff) && !st.NextTry.IsZero()
	}) {
		t.Fatalf("the Status is %+v, want Stalled or Backoff with a cause that names the webhook", rec.stream.Status())
	}
	c.touch(converted, "default", "a") // in the stored version

	convert(`{"strategy":"None","webhook":null}`)
	c.create(converted, "default", "b")
	events := rec.awaitObject(stream.Added, "b")
	for _, ev := range events {
		if ev.Type == stream.Deleted {
			t.Errorf("deleted: %q", texts(events))
		}
	}
	checkRules(t, events)
	checkWrites(t, c.writes, events, true)
}

// TestLargeObjectsAreReadInPages: 70 objects of 1.4 MB, which etcd limits to 1.5 MB, are 100 MB. Their snapshot takes
// the memory of a few pages.
func TestLargeObjectsAreReadInPages(t *testing.T) {
	const objects, size, page = 70, 1_400_000, 3
	srv := startServer(t, &devserver.Options{DisableWatchCache: true}) // the cache would hold all of them
	c := newCluster(t, srv.Config())
	if err := devserver.CreateCRDs(t.Context(), c.client, globes); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", size)
	for i := range objects {
		o := newObject(globes, fmt.Sprintf("large-%d", i))
		if err := unstructured.SetNestedField(o.Object, large, "spec", "text"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.client.Resource(globes.Resource()).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r := resolve(t, newResolver(srv.Config(), false), "globes.e2e.example.com")
	own, err := stream.NewClient(srv.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]dynamic.Interface{"NewClient": own, "stock": c.client} {
		s := newStream(t, client, r, &stream.Options{Requests: stream.Requests{PagedLists: true, PageSize: page}})
		before, most, n := heap(), uint64(0), 0
		for ev, err := range s.With(stream.Run{Until: stream.UntilSynced}).Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Object == nil {
				continue
			}
			if text, _, _ := unstructured.NestedString(ev.Object.Object, "spec", "text"); len(text) != size {
				t.Fatalf("%s: an object has a text of %d bytes", name, len(text))
			}
			if n++; n%10 == 0 {
				most = max(most, heap())
			}
		}
		// Two pages, each as JSON and decoded, and what the server in this process uses for them.
		if grown := int64(most) - int64(before); n != objects || grown > 16*page*size {
			t.Errorf("%s: %d objects, and the heap grew by %d MB", name, n, grown>>20)
		} else {
			t.Logf("%s: the heap grew by %d MB", name, grown>>20)
		}
	}
}

// heap returns the bytes of live objects.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
