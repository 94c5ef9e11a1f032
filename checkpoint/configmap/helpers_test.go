package configmap

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var configMapResource = gvr.Resource{
	GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true,
}

func newServer(t testing.TB) *streamtest.Server {
	srv := streamtest.NewServer(configMapResource)
	t.Cleanup(srv.Close)
	return srv
}

// do makes an http.RoundTripper of a function.
type do func(*http.Request) (*http.Response, error)

func (f do) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// clientOf returns a client each of whose requests goes through around, if that is not
// nil.
func clientOf(t testing.TB, srv *streamtest.Server, around func(r *http.Request, next http.RoundTripper) (*http.Response, error)) dynamic.Interface {
	t.Helper()
	cfg := srv.Config()
	if around != nil {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return do(func(r *http.Request) (*http.Response, error) { return around(r, next) })
		})
	}
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var errCut = errors.New("the connection was cut")

// unanswered lets a request get through, but not its answer.
func unanswered(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	resp, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	return nil, errCut
}

func open(t testing.TB, client dynamic.Interface, holder string) *Store {
	t.Helper()
	s, err := Open(t.Context(), client, "ns", "cp", &Options{Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func commit(t testing.TB, s *Store, deltas ...checkpoint.Delta) {
	t.Helper()
	if err := s.Commit(t.Context(), deltas); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, s checkpoint.Store, key string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := s.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sameAs fails unless a key has in s what it has in want, but for the time.
func sameAs(t testing.TB, want, s checkpoint.Store, key string) {
	t.Helper()
	a, b := load(t, want, key), load(t, s, key)
	if a != nil {
		a.Committed = time.Time{}
	}
	if b != nil {
		b.Committed = time.Time{}
	}
	if d := cmp.Diff(a, b); d != "" {
		t.Errorf("key %q: %s", key, d)
	}
}

// stored returns the ConfigMap.
func stored(t testing.TB, srv *streamtest.Server) *unstructured.Unstructured {
	t.Helper()
	o, err := srv.Client().Resource(configMaps).Namespace("ns").Get(t.Context(), "cp", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// edit changes the ConfigMap behind the Store's back.
func edit(t testing.TB, srv *streamtest.Server, do func(o *unstructured.Unstructured)) {
	t.Helper()
	o := stored(t, srv)
	do(o)
	if _, err := srv.Update(configMapResource, o); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, srv *streamtest.Server) {
	t.Helper()
	if _, err := srv.Delete(configMapResource, "ns", "cp"); err != nil {
		t.Fatal(err)
	}
}

func label(t testing.TB, srv *streamtest.Server, key, value string) {
	t.Helper()
	edit(t, srv, func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{key: value}) })
}

func valuesOf(t testing.TB, o *unstructured.Unstructured) content {
	t.Helper()
	c, err := contentOf(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var identity = checkpoint.Identity{
	Cluster: checkpoint.Cluster{UID: "c1", Address: "https://x <&>"}, Group: "example.com", Resource: "widgets",
	StorageVersionHash: "h=", Namespaces: []string{"a", "b"}, LabelSelector: "a in (b,c)", FieldSelector: "x!=y", Objects: true,
}

// delta is of a position at a version, and objects of those names at that version.
func delta(key, version string, names ...string) checkpoint.Delta {
	d := checkpoint.Delta{Key: key, Identity: identity, ResourceVersions: map[string]string{"a": version, "b": version + "1"}}
	for _, name := range names {
		d.Put = append(d.Put, checkpoint.Object{Namespace: "ns", Name: name, UID: uid(name), ResourceVersion: version})
	}
	return d
}

func uid(name string) types.UID {
	return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", name[:min(len(name), 6)]))
}

func fencedBy(t testing.TB, err error, holder string) {
	t.Helper()
	want := &checkpoint.FencedError{Store: "ConfigMap ns/cp", Holder: holder}
	var got *checkpoint.FencedError
	if !errors.As(err, &got) {
		t.Errorf("%v, want %v", err, want)
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func fieldsOf(t testing.TB, text string) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// clientOfTransport is for requests of others in the middle of one.
func clientOfTransport(t testing.TB, next http.RoundTripper) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(&rest.Config{Host: "http://streamtest", Transport: next, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// replayed sends a request twice and returns the second answer.
func replayed(t testing.TB, r *http.Request, next http.RoundTripper) (*http.Response, error) {
	t.Helper()
	body, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	again := r.Clone(r.Context())
	again.Body = body
	if _, err := unanswered(r, next); err != errCut {
		t.Fatal(err)
	}
	return next.RoundTrip(again)
}
