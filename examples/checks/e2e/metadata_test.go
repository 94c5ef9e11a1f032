package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/decodetest"
	"github.com/gvrwatch/gvrwatch/stream"
)

// contentTypes counts the content types of answers.
type contentTypes struct {
	mu sync.Mutex
	n  map[string]int
}

// countContentTypes returns a config whose answers are counted.
func countContentTypes(cfg *rest.Config) (*rest.Config, *contentTypes) {
	types := &contentTypes{n: map[string]int{}}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return countingTransport{next, types} })
	return cfg, types
}

type countingTransport struct {
	next  http.RoundTripper
	types *contentTypes
}

func (c countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err == nil {
		c.types.mu.Lock()
		defer c.types.mu.Unlock()
		c.types.n[resp.Header.Get("Content-Type")]++
	}
	return resp, err
}

// onlyProtobuf fails the test if not all answers were protobuf.
func (c *contentTypes) onlyProtobuf(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.n) == 0 {
		t.Error("no answers")
	}
	for kind := range c.n {
		if !strings.HasPrefix(kind, "application/vnd.kubernetes.protobuf") {
			t.Errorf("answers: %v, want only protobuf", c.n)
		}
	}
}

// compareMetadata compares the metadata that a Stream delivers, as protobuf from a streaming list or pages, with
// client-go's objects. It returns how many objects it has compared.
func compareMetadata(t *testing.T, cfg *rest.Config, stock dynamic.Interface, r gvr.Resource) int {
	t.Helper()
	cfg, types := countContentTypes(cfg)
	client, err := stream.NewClient(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, paged := range []bool{false, true} {
		list, err := stock.Resource(r.GroupVersionResource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]*unstructured.Unstructured{}
		for i, o := range list.Items {
			want[string(o.GetUID())+"@"+o.GetResourceVersion()] = &list.Items[i]
		}
		s := newStream(t, client, r, &stream.Options{
			Objects: stream.Metadata, Requests: stream.Requests{PagedLists: paged, PageSize: 50},
		})
		for ev, err := range s.With(stream.Run{Until: stream.UntilSynced}).Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Type != stream.Added {
				continue
			}
			o := want[string(ev.Object.GetUID())+"@"+ev.ResourceVersion]
			if o == nil {
				continue // it has changed in the meantime
			}
			unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
			metadata := map[string]any{
				"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": o.Object["metadata"],
			}
			if d := decodetest.Difference(metadata, ev.Object.Object); d != "" {
				t.Errorf("metadata of %s, paged %t: %s", r, paged, d)
			}
			compared++
		}
	}
	types.onlyProtobuf(t)
	return compared
}
